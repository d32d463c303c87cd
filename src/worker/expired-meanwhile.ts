import type { BegunTask } from '../ledger/ledger.ts';
import type { Clock } from '../runtime/clock.ts';

/**
 * Whether its time has run out since then, a moment of the monotonic clock, while the task waited here for a place: it must
 * not start, and `begin` ends and counts it when it is given back. What was too late by our clock when it came is none of
 * this: the store has looked at its own, and the two may differ.
 */
export function expiredMeanwhile(
  { envelope: { expiresMs } }: BegunTask,
  sinceMs: number,
  clock: Clock,
): boolean {
  if (expiresMs === null) return false;
  const lateMs = clock.now() - expiresMs;
  return lateMs >= 0 && lateMs < clock.monotonic() - sinceMs;
}
