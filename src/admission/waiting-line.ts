import type { Clock } from '../runtime/runtime.ts';

/** Waits up to here are exact. A longer one is not waited at once, because the limit may be raised meanwhile. */
const LONGEST_MS = 120_000;
/** So many keys are remembered before those whose line is over are forgotten. */
const KEYS = 1_000;

/**
 * When tasks that a rate refused return: each an interval after the one before it, also after those of earlier batches. If
 * each batch began at the front, thousands would return for the same few grants, and keep tasks of others waiting.
 */
export class WaitingLine {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** When the last one of each key returns. */
  readonly #ends = new Map<string, number>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Appends one that must wait for `leastMs` at least, and returns how long it waits. */
  join(key: string, leastMs: number, intervalMs: number): number {
    const nowMs = this.#clock.monotonic();
    const behindMs = (this.#ends.get(key) ?? Number.NEGATIVE_INFINITY) + intervalMs;
    const turnMs = Math.max(nowMs + leastMs, behindMs);
    // Beyond the longest wait they spread over as much time again, to return a few at a time.
    const atMs = turnMs > nowMs + 2 * LONGEST_MS ? nowMs + LONGEST_MS : turnMs;
    if (!this.#ends.has(key)) this.#forget(nowMs);
    this.#ends.set(key, atMs);
    return atMs - nowMs;
  }

  #forget(nowMs: number): void {
    if (this.#ends.size < KEYS) return;
    for (const [key, endMs] of this.#ends) if (endMs < nowMs) this.#ends.delete(key);
  }
}
