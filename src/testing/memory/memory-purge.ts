import type { PurgeReply, PurgeRequest } from '../../outbox/outbox-store.ts';
import { globPattern } from '../../task/glob.ts';

/** A dead letter in the view of a purge. */
export interface Mortal {
  readonly id: string;
  readonly name: string;
  readonly deadMs: number;
  readonly createdMs: number;
}

/** The letters to purge, oldest death first; a dry run counts all of them. */
export function choose<T extends Mortal>(
  letters: readonly T[],
  request: PurgeRequest,
  nowMs: number,
): readonly T[] {
  const { olderThanDeadMs, olderThanCreatedMs, taskName, limit, isDryRun } = request;
  const pattern = globPattern(taskName ?? '*');
  const matching = letters.filter(
    ({ name, deadMs, createdMs }) =>
      isOlder(deadMs, olderThanDeadMs, nowMs) &&
      isOlder(createdMs, olderThanCreatedMs, nowMs) &&
      pattern.test(name),
  );
  matching.sort((a, b) => a.deadMs - b.deadMs || (a.id < b.id ? -1 : 1));
  return isDryRun ? matching : matching.slice(0, limit);
}

const isOlder = (atMs: number, ageMs: number | null, nowMs: number): boolean =>
  ageMs === null || atMs < nowMs - ageMs;

export function countByName(letters: readonly Mortal[]): PurgeReply {
  const counts = new Map<string, number>();
  for (const { name } of letters) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].map(([name, count]) => ({ name, count }));
  return { counts: sorted.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}
