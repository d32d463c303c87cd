import { systemClock } from '../../runtime/clock.ts';

/** A message that nobody took for this long belongs to whoever has a place for it. */
export const LATE_MS = 1_000;
const WINDOW_MS = 500;
/**
 * Further windows in times of the places, by the tasks that a place runs in a second: one for what is begun next, and where
 * tasks are so short that many are begun early another, for two batches of those, two that are being settled and one that
 * comes. What they hold is run within half a second.
 */
const WIDTHS: readonly (readonly [tasksPerSecond: number, width: number])[] = [
  [80, 28],
  [4, 3],
];
/** Messages that go back are counted by quorum queues: not every minute, let alone more often. */
const REST_MS = 120_000;

/** Whether the tasks of a queue are short, as its acknowledgements tell. */
export class ConsumerPace {
  readonly #places: number;
  #width = 0;
  #since = 0;
  #acknowledged = 0;
  #narrowedAt = -Infinity;

  /** @param places tasks that run at once */
  constructor(places: number) {
    this.#places = places;
  }

  get isWide(): boolean {
    return this.#width > 0;
  }

  /** Told of acknowledgements: the width of a further window that is worth its while, or 0 where it is open. */
  widerBy(count: number): number {
    const now = systemClock.monotonic();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#acknowledged = 0;
    }
    this.#acknowledged += count;
    if (now - this.#narrowedAt <= REST_MS) return 0;
    const perSecond = (this.#acknowledged / this.#places) * (1_000 / WINDOW_MS);
    const [, width] = WIDTHS.find(([least]) => perSecond >= least) ?? [0, 0];
    return width > this.#width ? width : 0;
  }

  widen(width: number): void {
    this.#width = width;
  }

  narrow(): void {
    if (this.isWide) this.#narrowedAt = systemClock.monotonic();
    this.#width = 0;
  }
}
