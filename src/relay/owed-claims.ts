import { isUnavailable } from '../errors/error.ts';
import type { RelayOutbox } from '../outbox/outbox-store.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** An abandoned claim may still take effect for as long as the store lets a statement run, plus a margin. */
const LATE_CLAIM_MS = 60_000;

/**
 * Claims that must be given back and could not be yet: otherwise their rows would wait for the stale timeout, because
 * the relay that holds them is alive.
 */
export class OwedClaims {
  readonly #outbox: Pick<RelayOutbox, 'release'>;
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  /** By token: until when it may still get rows. */
  readonly #lateUntil = new Map<string, number>();

  constructor(outbox: Pick<RelayOutbox, 'release'>, runtime: Pick<Runtime, 'clock' | 'log'>) {
    this.#outbox = outbox;
    this.#runtime = runtime;
  }

  get isEmpty(): boolean {
    return this.#lateUntil.size === 0;
  }

  /** A claim without an answer: it has rows, or none, or will have some. */
  addUnanswered(token: string): void {
    this.#lateUntil.set(token, this.#runtime.clock.monotonic() + LATE_CLAIM_MS);
  }

  /** Frees the rows of a claim, now or as soon as the store can be reached. */
  async giveBack(token: string): Promise<void> {
    try {
      await this.#outbox.release(token);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.#lateUntil.set(token, -Infinity);
      this.#runtime.log.warn({ error }, 'the outbox cannot be reached; giving rows back later');
    }
  }

  /** Called before anything new is claimed. */
  async pay(): Promise<void> {
    for (const [token, lateUntil] of this.#lateUntil) {
      const freed = await this.#outbox.release(token);
      if (freed > 0 || this.#runtime.clock.monotonic() >= lateUntil) this.#lateUntil.delete(token);
    }
  }
}
