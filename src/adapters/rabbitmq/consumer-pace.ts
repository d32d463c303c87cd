import { systemClock } from '../../runtime/clock.ts';

/** A message that nobody took for this long belongs to whoever has a place for it. */
export const LATE_MS = 1_000;
const WINDOW_MS = 500;
/** A place that runs fewer tasks in a second gains nothing from messages that are here already. */
const TASKS_PER_SECOND = 20;
/** Messages that go back are counted by quorum queues: not every minute, let alone more often. */
const REST_MS = 120_000;

/** Whether the tasks of a queue are short, as its acknowledgements tell. */
export class ConsumerPace {
  readonly #wanted: number;
  #isWide = false;
  #since = 0;
  #acknowledged = 0;
  #narrowedAt = -Infinity;

  /** @param places tasks that run at once */
  constructor(places: number) {
    this.#wanted = (places * TASKS_PER_SECOND * WINDOW_MS) / 1_000;
  }

  get isWide(): boolean {
    return this.#isWide;
  }

  /** Told of acknowledgements: true when a second window is worth its while and not open. */
  isToWiden(count: number): boolean {
    const now = systemClock.monotonic();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#acknowledged = 0;
    }
    this.#acknowledged += count;
    const isRested = now - this.#narrowedAt > REST_MS;
    return !this.#isWide && isRested && this.#acknowledged >= this.#wanted;
  }

  widen(): void {
    this.#isWide = true;
  }

  narrow(): void {
    if (this.#isWide) this.#narrowedAt = systemClock.monotonic();
    this.#isWide = false;
  }
}
