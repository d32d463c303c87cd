import type { Clock } from '../runtime/clock.ts';
import type { Heart } from './heart.ts';

/**
 * The lease of this process, as old as it is by its own clocks: counted from the sending of the last answered beat, and
 * over a moment before its end.
 */
export class LeaseWatch {
  readonly #heart: Pick<Heart, 'lastBeatAt'>;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #marginMs: number;
  /** What the wall clock was ahead of the monotonic one at the last beat. */
  #aheadMs: number;

  constructor(heart: Pick<Heart, 'lastBeatAt'>, clock: Clock, leaseMs: number) {
    this.#heart = heart;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#marginMs = Math.min(1_000, leaseMs / 5);
    this.#aheadMs = clock.now() - clock.monotonic();
  }

  /** A beat was answered, or an incarnation opened. */
  noteBeat(): void {
    this.#aheadMs = this.#clock.now() - this.#clock.monotonic();
  }

  /**
   * At this very moment. A process that was stopped, or whose machine slept, goes on where it was before any timer or
   * message of its own can tell it; whoever is about to start something asks here. A machine that sleeps may stop the
   * monotonic clock as well, so what the wall clock has gained on it since the last beat counts too.
   */
  get isOver(): boolean {
    const sleptMs = this.#clock.now() - this.#clock.monotonic() - this.#aheadMs;
    return this.#leftMs() - Math.max(0, sleptMs) <= 0;
  }

  /** Calls `fence` when it is over, and again for as long as that lasts. Returns the undo. */
  watch(fence: () => void): () => void {
    let cancel = (): void => undefined;
    const look = (): void => {
      const leftMs = this.#leftMs();
      if (leftMs <= 0) fence();
      cancel = this.#clock.timer(Math.max(leftMs, this.#marginMs / 2), look);
    };
    cancel = this.#clock.timer(this.#leaseMs - this.#marginMs, look);
    return () => cancel();
  }

  /** By the monotonic clock alone. */
  #leftMs(): number {
    const endsAt = this.#heart.lastBeatAt() + this.#leaseMs - this.#marginMs;
    return endsAt - this.#clock.monotonic();
  }
}
