import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS, type OpenChords } from '../../ledger/open-chord.ts';
import { chordOf, type ChordNote } from '../../task/chord-link.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes, toText } from '../../task/json.ts';
import type { SqlDatabase } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Far beyond the time in which a part of a completed chord may be told again. */
const KEEP_COMPLETE_MS = 86_400_000;

export async function joinChord(db: SqlDatabase, part: ChordPart): Promise<ChordAnswer> {
  const { groupId, index, size, taskId, result } = part;
  const bytes = result === null ? null : toBytes(result);
  const rows = await db.transaction(async tx => {
    await tx.query(SQL.chordJoin, [groupId, index, size, taskId, bytes]);
    return await tx.query(SQL.chordParts, [groupId]);
  });
  const own = rows.find(row => row['place'] === index);
  if (own?.['result'] === null) return { status: 'failed' };
  const results = rows.flatMap(row => (row['result'] as Uint8Array | null) ?? []);
  if (size === null || results.length < size) return { status: 'open' };
  // Whoever had all parts before has sent the body.
  if (own?.['is_open'] !== true) return { status: 'open' };
  return { status: 'complete', results: results.map(toText) };
}

export async function closeChord(db: SqlDatabase, groupId: string): Promise<void> {
  await db.query(SQL.chordClose, [groupId]);
}

/** Which chords are open from the moment their headers are sent. Told again, and after their parts, it changes nothing. */
export async function noteChords(db: SqlDatabase, messages: readonly Envelope[]): Promise<void> {
  const chords = new Map(
    messages.flatMap(message => {
      const chord = chordOf(message);
      return chord === null ? [] : [[chord.groupId, chord] as const];
    }),
  );
  if (chords.size > 0) await db.query(SQL.chordNote, [noteText([...chords.values()])]);
}

/** What `chord-note.sql` takes. */
export const noteText = (chords: readonly ChordNote[]): string =>
  JSON.stringify(chords.map(({ groupId, size, body }) => ({ group_id: groupId, size, body })));

export async function pruneChords(db: SqlDatabase, limit: number): Promise<void> {
  await db.query(SQL.pruneChords, [limit, KEEP_COMPLETE_MS]);
}

export async function abandonChords(db: SqlDatabase, limit: number): Promise<readonly string[]> {
  const rows = await db.query(SQL.chordAbandon, [limit, KEEP_OPEN_CHORD_MS]);
  return rows.map(row => row['group_id'] as string);
}

export async function openChords(db: SqlDatabase, limit: number): Promise<OpenChords> {
  // Each row says how many there are; without a row nobody would.
  const rows = await db.query(SQL.chordOpen, [Math.max(1, limit)]);
  const oldest = rows.map(row => ({
    groupId: row['group_id'] as string,
    parts: Number(row['parts']),
    size: row['size'] as number | null,
    failed: Number(row['failed']),
    body: row['body'] as string | null,
    since: new Date(Number(row['since_ms'])).toISOString(),
    ageMs: Number(row['age_ms']),
  }));
  return { open: Number(rows[0]?.['open'] ?? 0), oldest: oldest.slice(0, limit) };
}
