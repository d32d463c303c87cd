import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import type { JoinedPart, MemoryLedgerState } from './memory-ledger-state.ts';

/** As in PostgreSQL: far beyond the time in which a part of a completed chord may be told again. */
const KEEP_COMPLETE_MS = 86_400_000;

export function joinChord(state: MemoryLedgerState, part: ChordPart): ChordAnswer {
  const { groupId, index, size } = part;
  const parts = state.chords.get(groupId) ?? new Map<number, JoinedPart>();
  state.chords.set(groupId, parts);
  const found = parts.get(index);
  if (found === undefined || (found.result === null && part.result !== null))
    parts.set(index, { ...part, joinedMs: state.nowMs });
  if (parts.get(index)?.result === null) return { status: 'failed' };
  const results = [...parts.values()]
    .toSorted((a, b) => a.index - b.index)
    .flatMap(({ result }) => result ?? []);
  if (size === null || results.length < size) return { status: 'open' };
  return { status: 'complete', results };
}

export function pruneChords(state: MemoryLedgerState): void {
  const before = state.nowMs - KEEP_COMPLETE_MS;
  for (const [groupId, parts] of state.chords) {
    const all = [...parts.values()];
    const isOver = all.every(({ result, joinedMs }) => result !== null && joinedMs < before);
    if (isOver && all.length === all[0]?.size) state.chords.delete(groupId);
  }
}
