import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS, type OpenChords } from '../../ledger/open-chord.ts';
import { chordOf, type ChordNote } from '../../task/chord-link.ts';
import type { Envelope } from '../../task/envelope.ts';
import { toBytes, toText } from '../../task/json.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Far beyond the time in which a part of a completed chord may be reported again. */
const KEEP_COMPLETE_MS = 86_400_000;

/**
 * Counts parts of chords. Those of one chord take turns in this process: they would wait for the same row, each with a
 * connection that other steps need.
 */
export class PostgresChordCount {
  readonly #db: SqlDatabase;
  /** The last join of each chord that is under way. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async join(part: ChordPart): Promise<ChordAnswer> {
    const { groupId } = part;
    const before = this.#turns.get(groupId);
    const turn = before === undefined ? this.#count(part) : before.then(() => this.#count(part));
    const ended = turn.catch(() => undefined);
    this.#turns.set(groupId, ended);
    try {
      return await this.#answer(part, await turn);
    } finally {
      if (this.#turns.get(groupId) === ended) this.#turns.delete(groupId);
    }
  }

  async #count(part: ChordPart): Promise<SqlRow> {
    const { groupId, index, size, taskId, result } = part;
    const bytes = result === null ? null : toBytes(result);
    const params = [groupId, index, size, taskId, bytes, part.isSigned === true];
    return (await this.#db.query(SQL.chordJoin, params))[0] ?? {};
  }

  /** Without parts the chord is not open: the process that had all of them before has sent the body. */
  async #answer({ groupId, size }: ChordPart, counted: SqlRow): Promise<ChordAnswer> {
    if (counted['has_result'] !== true) return { status: 'failed' };
    const parts = counted['parts'] as number | null;
    if (size === null || parts === null || parts < size) return { status: 'open' };
    const rows = await this.#db.query(SQL.chordParts, [groupId]);
    const results = rows.map(row => toText(row['result'] as Uint8Array));
    return { status: 'complete', results, isSigned: rows.every(row => row['is_signed'] === true) };
  }
}

export async function closeChord(db: SqlDatabase, groupId: string): Promise<void> {
  await db.query(SQL.chordClose, [groupId]);
}

/** Records chords as open from the moment their headers are sent. Repeated, or after their parts, it changes nothing. */
export async function noteChords(db: SqlDatabase, messages: readonly Envelope[]): Promise<void> {
  const chords = new Map(
    messages.flatMap(message => {
      const chord = chordOf(message);
      return chord === null ? [] : [[chord.groupId, chord] as const];
    }),
  );
  if (chords.size > 0) await db.query(SQL.chordNote, [noteText([...chords.values()]), null]);
}

/** The parameter of `chord-note.sql`. */
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
  const rows = await db.query(SQL.chordOpen, [limit]);
  const waiting = rows.filter(row => row['group_id'] !== null);
  const oldest = waiting.map(row => ({
    groupId: row['group_id'] as string,
    parts: Number(row['parts']),
    size: row['size'] as number | null,
    failed: Number(row['failed']),
    body: row['body'] as string | null,
    since: new Date(Number(row['since_ms'])).toISOString(),
    ageMs: Number(row['age_ms']),
  }));
  return { open: Number(rows[0]?.['open'] ?? 0), oldest };
}
