import { nextTurn } from '../../runtime/end-of-tick.ts';

interface Batch<T> {
  tasks: number;
  suspects: number;
  readonly done: Promise<T>;
}

/** See `Flow`. */
const MOST = 2;

/** The batches that are being begun. */
export class InFlightBatches<T> {
  #batches: readonly Batch<T>[] = [];
  #turn: Promise<void> = Promise.resolve();

  /** How many tasks they may bring. */
  get promised(): number {
    return this.#batches.reduce((sum, { tasks }) => sum + tasks, 0);
  }

  /** How many suspects they may bring. */
  get suspects(): number {
    return this.#batches.reduce((sum, { suspects }) => sum + suspects, 0);
  }

  add(tasks: number, suspects: number, done: Promise<T>): void {
    const batch = { tasks, suspects, done };
    this.#batches = [...this.#batches, batch];
    const settled = (): void => {
      batch.tasks = 0;
      batch.suspects = 0;
    };
    // A failure reaches the caller that waits for the batch.
    done.then(settled, settled);
  }

  /** Waits until another batch may start; undefined: one could at once. */
  async room(): Promise<T | undefined> {
    return this.#batches.length < MOST ? undefined : await this.#first();
  }

  /** Waits for all of them; returns the result of the last one. */
  async last(): Promise<T | undefined> {
    let answer: T | undefined;
    while (this.#batches.length > 0) answer = await this.#first();
    return answer;
  }

  /** Waits for all of them, however they end. */
  async over(): Promise<void> {
    while (this.#batches.length > 0) await this.#first().catch(() => undefined);
  }

  /**
   * Only one batch continues in each turn of the event loop. If two replies arrive together, this process would run both
   * batches while the store is idle; so the request that follows the first is sent before the second is run.
   */
  turn(): Promise<void> {
    const mine = this.#turn;
    this.#turn = mine.then(nextTurn);
    return mine;
  }

  async #first(): Promise<T | undefined> {
    const [batch] = this.#batches;
    try {
      return await batch?.done;
    } finally {
      this.#batches = this.#batches.filter(other => other !== batch);
    }
  }
}
