import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS, type OpenChord } from '../../ledger/open-chord.ts';
import type { JoinedPart, MemoryLedgerState } from './memory-ledger-state.ts';

/** As in PostgreSQL: far beyond the time in which a part of a completed chord may be repeated. */
const KEEP_COMPLETE_MS = 86_400_000;

export function joinChord(state: MemoryLedgerState, part: ChordPart): ChordAnswer {
  const { groupId, index, size } = part;
  const parts = state.chords.get(groupId) ?? new Map<number, JoinedPart>();
  state.chords.set(groupId, parts);
  const found = parts.get(index);
  if (found === undefined || (found.result === null && part.result !== null))
    parts.set(index, { ...part, joinedMs: state.nowMs });
  if (parts.get(index)?.result === null) return { status: 'failed' };
  const counted = [...parts.values()]
    .filter(({ result }) => result !== null)
    .toSorted((a, b) => a.index - b.index);
  if (size === null || counted.length < size) return { status: 'open' };
  const results = counted.flatMap(({ result }) => result ?? []);
  return { status: 'complete', results, isSigned: counted.every(one => one.isSigned === true) };
}

export function pruneChords(state: MemoryLedgerState): void {
  const before = state.nowMs - KEEP_COMPLETE_MS;
  for (const [groupId, parts] of state.chords) {
    const all = [...parts.values()];
    const isOver = all.every(({ result, joinedMs }) => result !== null && joinedMs < before);
    if (isOver && all.length === all[0]?.size) state.chords.delete(groupId);
  }
}

/** Oldest first. */
export function openChords(state: MemoryLedgerState): OpenChord[] {
  const all = [...state.chords].map(([groupId, joined]): OpenChord => {
    const parts = [...joined.values()];
    const failed = parts.filter(({ result }) => result === null).length;
    const sinceMs = Math.min(...parts.map(({ joinedMs }) => joinedMs));
    return {
      groupId,
      body: null,
      parts: parts.length - failed,
      size: parts[0]?.size ?? null,
      failed,
      since: new Date(sinceMs).toISOString(),
      ageMs: state.nowMs - sinceMs,
    };
  });
  return all
    .filter(({ size, parts }) => size === null || parts < size)
    .sort((a, b) => b.ageMs - a.ageMs);
}

export function abandonChords(state: MemoryLedgerState, limit: number): readonly string[] {
  const before = state.nowMs - KEEP_OPEN_CHORD_MS;
  const isIdle = ({ groupId }: OpenChord): boolean =>
    [...(state.chords.get(groupId)?.values() ?? [])].every(({ joinedMs }) => joinedMs < before);
  const idle = openChords(state).filter(isIdle).slice(0, limit);
  for (const { groupId } of idle) state.chords.delete(groupId);
  return idle.map(({ groupId }) => groupId);
}
