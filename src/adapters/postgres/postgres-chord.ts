import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { toBytes, toText } from '../../task/json.ts';
import type { SqlDatabase } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Far beyond the time in which a part of a completed chord may be told again. */
const KEEP_COMPLETE_MS = 86_400_000;

export async function joinChord(db: SqlDatabase, part: ChordPart): Promise<ChordAnswer> {
  const { groupId, index, size, taskId, result } = part;
  const bytes = result === null ? null : toBytes(result);
  await db.query(SQL.chordJoin, [groupId, index, size, taskId, bytes]);
  const rows = await db.query(SQL.chordParts, [groupId]);
  const own = rows.find(row => row['place'] === index);
  if (own?.['result'] === null) return { status: 'failed' };
  const results = rows.flatMap(row => (row['result'] as Uint8Array | null) ?? []);
  if (size === null || results.length < size) return { status: 'open' };
  return { status: 'complete', results: results.map(toText) };
}

export async function pruneChords(db: SqlDatabase, limit: number): Promise<void> {
  await db.query(SQL.pruneChords, [limit, KEEP_COMPLETE_MS]);
}
