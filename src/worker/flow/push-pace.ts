import type { Clock } from '../../runtime/clock.ts';

const WINDOW_MS = 500;
/**
 * The size of windows ahead as a multiple of the slots, by tasks per second and slot: three times for the tasks that begin
 * next. Where tasks are so short that many are begun early: two batches of those, two being settled and half of one coming.
 * All of it runs within half a second.
 */
const WIDTHS: readonly (readonly [tasksPerSecond: number, width: number])[] = [
  [80, 28],
  [4, 3],
];
/**
 * After messages went back no window ahead is opened for this long, and longer each time: quorum queues count returns. A
 * single stall costs seconds; tasks that alternate between short and long cost one return every two minutes.
 */
const FIRST_REST_MS = 2_000;
const LONGEST_REST_MS = 120_000;
/**
 * Windows ahead that were emptied so many times before they came too late were of use, and did not return the message at the
 * head of the queue again and again: a machine that stalls now and then rests as after its first stall.
 */
const OF_USE = 10;

/** Whether the tasks of a queue are short, judged by its acknowledgements. */
export class PushPace {
  readonly #slots: number;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #since = -Infinity;
  #acknowledged = 0;
  /** Acknowledged since there are windows ahead. */
  #throughput = 0;
  #restMs = 0;
  #restUntil = -Infinity;

  /** @param slots tasks that run at once */
  constructor(slots: number, clock: Pick<Clock, 'monotonic'>) {
    this.#slots = slots;
    this.#clock = clock;
  }

  acknowledged(count: number): void {
    const now = this.#clock.monotonic();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#acknowledged = 0;
    }
    this.#acknowledged += count;
    this.#throughput += count;
  }

  /** How many times the slots may be pushed ahead; 0: nothing. */
  get width(): number {
    const now = this.#clock.monotonic();
    if (now < this.#restUntil || now - this.#since > WINDOW_MS) return 0;
    const perSecond = (this.#acknowledged / this.#slots) * (1_000 / WINDOW_MS);
    return WIDTHS.find(([least]) => perSecond >= least)?.[1] ?? 0;
  }

  /** The first window ahead is being opened. */
  opened(): void {
    this.#throughput = 0;
  }

  /** Messages that were pushed ahead, `width` times the slots, were not taken in time, or were too large, and went back. */
  rest(width: number): void {
    const now = this.#clock.monotonic();
    const isLongAgo = now - this.#restUntil > LONGEST_REST_MS;
    const wereOfUse = this.#throughput >= OF_USE * this.#slots * width;
    this.#restMs =
      isLongAgo || wereOfUse ? FIRST_REST_MS : Math.min(2 * this.#restMs, LONGEST_REST_MS);
    this.#restUntil = now + this.#restMs;
  }
}
