import { outlastError } from '../../errors/error.ts';
import { systemClock } from '../../runtime/runtime.ts';
import { durationMs, type Duration } from '../../task/duration.ts';

export interface AnswerOptions {
  /**
   * How long the pool may take to hand out a connection, and the server to answer a statement of ours; then the call fails
   * with `ERR_STORE_UNAVAILABLE`. Your own statements have the limits that you give your driver.
   * @default '30s'
   */
  readonly answerTimeout?: Duration;
}

/** Drivers wait for ever: for a pool that is exhausted, and for a server that has fallen silent. */
export class AnswerLimit {
  readonly #ms: number;
  /** The errors of what came too late, with what had to come. */
  readonly #late = new WeakMap<object, Promise<unknown>>();

  constructor({ answerTimeout = '30s' }: AnswerOptions) {
    this.#ms = durationMs(answerTimeout, 'answerTimeout');
  }

  /** A connection of the pool; one that comes too late goes back. */
  connection<C>(connecting: Promise<C>, giveBack: (connection: C) => unknown): Promise<C> {
    return this.#within(connecting, {
      message: `the pool has handed out no connection for ${this.#ms} ms`,
      hint: 'Its connections are all in use, or its server does not answer. Make the pool larger, or transactions shorter.',
      onLate: connection => void giveBack(connection),
    });
  }

  answer<T>(answering: Promise<T>): Promise<T> {
    return this.#within(answering, {
      message: `the database has not answered for ${this.#ms} ms`,
      hint: 'If it was a COMMIT, it may have been done. Check that the database runs, can be reached, and which locks are held.',
      onLate: () => undefined,
    });
  }

  /** The connection still waits for an answer: nothing further can be said on it. */
  isLate(error: unknown): boolean {
    return this.#awaited(error) !== undefined;
  }

  /** Resolves when nothing is awaited any more after this error: at once, unless it is of a late answer. */
  async settled(failure: unknown): Promise<void> {
    await this.#awaited(failure)?.catch(() => undefined);
  }

  #awaited(error: unknown): Promise<unknown> | undefined {
    return typeof error === 'object' && error !== null ? this.#late.get(error) : undefined;
  }

  #within<T>(
    answering: Promise<T>,
    late: { readonly message: string; readonly hint: string; onLate(value: T): void },
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      let isLate = false;
      const cancel = systemClock.timer(this.#ms, () => {
        isLate = true;
        const { message, hint } = late;
        const error = outlastError('ERR_STORE_UNAVAILABLE', { message, hint, fields: {} });
        this.#late.set(error, answering);
        reject(error);
      });
      const settle = (value: T): void => {
        cancel();
        if (isLate) late.onLate(value);
        else resolve(value);
      };
      answering.then(settle, (error: unknown) => {
        cancel();
        reject(error);
      });
    });
  }
}
