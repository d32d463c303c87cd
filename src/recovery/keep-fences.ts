import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { TaskState } from '../ledger/ledger.ts';
import type { DueFence, FenceRows } from './fence-rows.ts';

export interface KeptFences {
  readonly rows: FenceRows;
  readonly ledger: Pick<LedgerReads, 'states'>;
  /** How long the tombstone of a task turns away its copies. */
  readonly dedupMs: number;
}

/** A ledger that does not know a task may have lost its memory, while other processes still bring the task back. */
const DOUBT_MS = 86_400_000;

/**
 * Deletes fences whose task has been over for as long as copies of it may come. This database is not notified when a task
 * ends, so the ledger is asked twice: when a task is first seen to be over, and after its time. Returns how many tasks it
 * was asked about.
 */
export async function keepFences(
  { rows, ledger, dedupMs }: KeptFences,
  limit: number,
): Promise<number> {
  const due = await rows.due(limit);
  if (due.length === 0) return 0;
  const states = await ledger.states(due.map(({ id }) => id));
  const of = (kind: Fate): string[] =>
    due.filter((fence, index) => fateOf(fence, states[index] ?? null) === kind).map(({ id }) => id);
  await inTurn(of('alive'), ids => rows.later(ids));
  await inTurn(of('ended'), ids => rows.over(ids, dedupMs));
  await inTurn(of('unknown'), ids => rows.over(ids, DOUBT_MS));
  await inTurn(of('forgotten'), ids => rows.forget(ids));
  return due.length;
}

type Fate = 'alive' | 'ended' | 'unknown' | 'forgotten';

/** A dead letter may be revived: its steps stay until it is purged. */
function fateOf({ isOver }: DueFence, state: TaskState | null): Fate {
  switch (state) {
    case 'waiting':
    case 'running':
    case 'dead':
      return 'alive';
    case 'done':
    case 'cancelled':
      return isOver ? 'forgotten' : 'ended';
    case null:
      return isOver ? 'forgotten' : 'unknown';
  }
}

async function inTurn(
  ids: readonly string[],
  move: (ids: readonly string[]) => Promise<void>,
): Promise<void> {
  if (ids.length > 0) await move(ids);
}
