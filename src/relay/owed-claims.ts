import { isUnavailable } from '../errors/error.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** A claim that was given up may still take effect for as long as the store lets a statement run, and then some. */
const LATE_CLAIM_MS = 60_000;

/**
 * Claims that are to be given back and could not be: their rows would otherwise wait for the stale timeout, because the
 * relay that holds them lives.
 */
export class OwedClaims {
  readonly #outbox: Pick<OutboxStore, 'release'>;
  readonly #runtime: Pick<Runtime, 'clock' | 'log'>;
  /** By token: until when it may still get rows. */
  readonly #lateUntil = new Map<string, number>();

  constructor(outbox: Pick<OutboxStore, 'release'>, runtime: Pick<Runtime, 'clock' | 'log'>) {
    this.#outbox = outbox;
    this.#runtime = runtime;
  }

  get isEmpty(): boolean {
    return this.#lateUntil.size === 0;
  }

  /** A claim that got no answer: it has rows, or none, or will have some. */
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

  /** Before anything new is claimed. */
  async pay(): Promise<void> {
    for (const [token, lateUntil] of this.#lateUntil) {
      const freed = await this.#outbox.release(token);
      if (freed > 0 || this.#runtime.clock.monotonic() >= lateUntil) this.#lateUntil.delete(token);
    }
  }
}
