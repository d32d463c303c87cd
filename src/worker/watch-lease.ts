import type { Clock } from '../runtime/clock.ts';
import type { Heart } from './heart.ts';

/**
 * Calls `fence` a moment before a lease ends that no beat has prolonged, by this process's own monotonic clock, and again
 * for as long as that lasts. Returns the undo.
 */
export function watchLease(
  heart: Heart,
  clock: Clock,
  leaseMs: number,
  fence: () => void,
): () => void {
  const marginMs = marginOf(leaseMs);
  let cancel = (): void => undefined;
  const look = (): void => {
    const leftMs = heart.lastBeatAt() + leaseMs - marginMs - clock.monotonic();
    if (leftMs <= 0) fence();
    cancel = clock.timer(Math.max(leftMs, marginMs / 2), look);
  };
  cancel = clock.timer(leaseMs - marginMs, look);
  return () => cancel();
}

const marginOf = (leaseMs: number): number => Math.min(1_000, leaseMs / 5);

/**
 * How old a lease is at this very moment. A process that was stopped, or whose machine slept, goes on where it was before
 * any timer or message of its own can tell it; whoever is about to start something asks here. A machine that sleeps may
 * stop the monotonic clock as well, so what the wall clock has gained on it since the last beat counts too.
 */
export class LeaseAge {
  readonly #heart: Pick<Heart, 'lastBeatAt'>;
  readonly #clock: Clock;
  readonly #longestMs: number;
  #aheadMs: number;

  constructor(heart: Pick<Heart, 'lastBeatAt'>, clock: Clock, leaseMs: number) {
    this.#heart = heart;
    this.#clock = clock;
    this.#longestMs = leaseMs - marginOf(leaseMs);
    this.#aheadMs = clock.now() - clock.monotonic();
  }

  /** A beat was answered, or an incarnation opened. */
  noteBeat(): void {
    this.#aheadMs = this.#clock.now() - this.#clock.monotonic();
  }

  get isOver(): boolean {
    const nowMs = this.#clock.monotonic();
    const sleptMs = Math.max(0, this.#clock.now() - nowMs - this.#aheadMs);
    return nowMs + sleptMs - this.#heart.lastBeatAt() >= this.#longestMs;
  }
}
