import type { Clock } from '../runtime/runtime.ts';

/** Requests per second, as a rate and as a burst: far more than tools send, and little work for a worker. */
const PER_SECOND = 50;
const AT_ONCE = 200;
/** A request counts once more for every so many bytes: reading it takes as long. */
const BYTES_OF_ONE = 16_384;

/**
 * How many control requests are read. Any client that may publish to the broker may send them, to every worker at once, so
 * each worker skips requests that would keep it from working. Counted before anything is read of a request.
 */
export class RequestBudget {
  readonly #clock: Clock;
  #left = AT_ONCE;
  #countedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
  }

  /** False: it is to be skipped. */
  allows(bytes: number): boolean {
    const now = this.#clock.monotonic();
    const earned = ((now - this.#countedAt) / 1_000) * PER_SECOND;
    this.#countedAt = now;
    this.#left = Math.min(AT_ONCE, this.#left + earned);
    const cost = 1 + bytes / BYTES_OF_ONE;
    if (cost > this.#left) return false;
    this.#left -= cost;
    return true;
  }
}
