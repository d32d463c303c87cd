import type { Clock } from '../../runtime/clock.ts';
import type { Heartbeat } from './heartbeat.ts';

/**
 * The lease of this process by its own clocks: it counts from the sending of the last answered beat, and ends a moment
 * before the lease in the store does.
 */
export class LeaseWatch {
  readonly #heartbeat: Pick<Heartbeat, 'lastBeatAt'>;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #marginMs: number;
  /** How far the wall clock was ahead of the monotonic one at the last beat. */
  #aheadMs: number;

  constructor(heartbeat: Pick<Heartbeat, 'lastBeatAt'>, clock: Clock, leaseMs: number) {
    this.#heartbeat = heartbeat;
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
   * Evaluated at this very moment. A process that was stopped, or whose machine slept, resumes before any timer or message can
   * notify it, so code that is about to start something checks here. A sleeping machine may stop the monotonic clock as well,
   * so what the wall clock has gained on it since the last beat counts too.
   */
  get isOver(): boolean {
    const sleptMs = this.#clock.now() - this.#clock.monotonic() - this.#aheadMs;
    return this.#leftMs() - Math.max(0, sleptMs) <= 0;
  }

  /** Calls `fence` when it is over, and again for as long as that lasts. Returns a function that stops it. */
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
    const endsAt = this.#heartbeat.lastBeatAt() + this.#leaseMs - this.#marginMs;
    return endsAt - this.#clock.monotonic();
  }
}
