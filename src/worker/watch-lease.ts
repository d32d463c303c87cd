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
  const marginMs = Math.min(1_000, leaseMs / 5);
  let cancel = (): void => undefined;
  const look = (): void => {
    const leftMs = heart.lastBeatAt() + leaseMs - marginMs - clock.monotonic();
    if (leftMs <= 0) fence();
    cancel = clock.timer(Math.max(leftMs, marginMs / 2), look);
  };
  cancel = clock.timer(leaseMs - marginMs, look);
  return () => cancel();
}
