import type { BegunTask } from '../../ledger/ledger.ts';
import type { Clock } from '../../runtime/clock.ts';

/**
 * Whether the task has expired since then, a moment of the monotonic clock, while it waited here for a slot: it must
 * not start, and `begin` ends and counts it when it is given back. A task that was too late by our clock when it came does
 * not count here: the store has checked its own clock, and the two may differ.
 */
export function hasExpired(
  { envelope: { expiresMs } }: BegunTask,
  sinceMs: number,
  clock: Clock,
): boolean {
  if (expiresMs === null) return false;
  const lateMs = clock.now() - expiresMs;
  return lateMs >= 0 && lateMs < clock.monotonic() - sinceMs;
}
