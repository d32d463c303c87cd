import type { Clock } from '../../runtime/clock.ts';

const PER_SECOND = 50;
const BURST = 10;

/**
 * How often a process notifies relays. A commit that notifies holds a lock of the whole server until it is on the disk:
 * many connections would commit one after the other. Above this rate relays find rows by polling: a relay that has just
 * found some polls again soon.
 */
export class NotifyLimit {
  readonly #clock: Clock;
  #left = BURST;
  #countedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
  }

  /** Whether the next send may notify; if so, it is counted. */
  take(): boolean {
    const now = this.#clock.monotonic();
    this.#left = Math.min(BURST, this.#left + ((now - this.#countedAt) / 1_000) * PER_SECOND);
    this.#countedAt = now;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
