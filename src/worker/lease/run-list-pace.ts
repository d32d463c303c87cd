import type { Clock } from '../../runtime/runtime.ts';

/** Lists may take this share of the time at most. */
const SHARE = 10;
/** A list that was slow once, because the machine was, is tried again after this time. */
const LONGEST_PAUSE_MS = 30_000;

/**
 * Whether a beat also asks what its worker runs. In PostgreSQL tasks that were run leave dead entries in the index of running
 * tasks, and while a foreign transaction holds an old snapshot nothing can clean them up: each list walks over every task that
 * the worker has run since. The lease must not wait for that. It is extended by every beat; the list only repairs what a lost
 * reply has left, and may be late.
 */
export class RunListPace {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #nextAt = -Infinity;
  #failed = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  get isDue(): boolean {
    return this.#clock.monotonic() >= this.#nextAt;
  }

  /** A list took this long; null: there is no answer. One may be lost with its connection, and then the next list is needed most. */
  listed(tookMs: number | null): void {
    this.#failed = tookMs === null ? this.#failed + 1 : 0;
    const unansweredMs = this.#failed > 1 ? LONGEST_PAUSE_MS : 0;
    const pauseMs = tookMs === null ? unansweredMs : tookMs * SHARE;
    this.#nextAt = this.#clock.monotonic() + Math.min(pauseMs, LONGEST_PAUSE_MS);
  }
}
