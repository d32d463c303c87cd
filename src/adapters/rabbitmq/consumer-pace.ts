import { systemClock, type Clock } from '../../runtime/clock.ts';

const WINDOW_MS = 500;
/**
 * Size of the extra windows as a multiple of the slots, by tasks per second and slot: one multiple for the tasks that
 * begin next. Where tasks are so short that prefetch overcommits: two batches of those, two being settled and one
 * arriving. All of it runs within half a second.
 */
const WIDTHS: readonly (readonly [tasksPerSecond: number, width: number])[] = [
  [80, 28],
  [4, 3],
];
/**
 * After messages were returned, no extra window is opened for this long, and longer each time: quorum queues count
 * returns. A single stall costs seconds; tasks that alternate between short and long cost one return every two minutes.
 */
const FIRST_REST_MS = 2_000;
const LONGEST_REST_MS = 120_000;

/** Whether the tasks of a queue are short, judged by its acknowledgements. */
export class ConsumerPace {
  readonly #slots: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #width = 0;
  #since = 0;
  #acknowledged = 0;
  #restMs = 0;
  #restUntil = -Infinity;

  /** @param slots tasks that run at once */
  constructor(slots: number, clock: Pick<Clock, 'monotonic'> = systemClock) {
    this.#slots = slots;
    this.#clock = clock;
  }

  get isWide(): boolean {
    return this.#width > 0;
  }

  /**
   * Counts acknowledgements. Returns the width of an extra window worth opening; 0 where none is, or it is open already.
   */
  widerBy(count: number): number {
    const now = this.#clock.monotonic();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#acknowledged = 0;
    }
    this.#acknowledged += count;
    if (now < this.#restUntil) return 0;
    const perSecond = (this.#acknowledged / this.#slots) * (1_000 / WINDOW_MS);
    const [, width] = WIDTHS.find(([least]) => perSecond >= least) ?? [0, 0];
    return width > this.#width ? width : 0;
  }

  widen(width: number): void {
    this.#width = width;
  }

  /** The extra windows are gone for a reason unrelated to the tasks: a lost connection, a pause. */
  narrow(): void {
    this.#width = 0;
  }

  /** The extra windows were shut because their messages were not taken in time and were returned. */
  narrowLate(): void {
    const now = this.#clock.monotonic();
    const isLongAgo = now - this.#restUntil > LONGEST_REST_MS;
    this.#restMs = isLongAgo ? FIRST_REST_MS : Math.min(2 * this.#restMs, LONGEST_REST_MS);
    this.#restUntil = now + this.#restMs;
    this.#width = 0;
  }
}
