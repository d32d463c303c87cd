import type { ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS, type OpenChord, type OpenChords } from '../../ledger/open-chord.ts';
import { celeryChordKeys, joinCeleryChord } from './redis-celery-chord.ts';
import { joinChord, KEEP_MS } from './redis-chord.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

export interface ChordKeys {
  /** The key of the set of open chords. */
  readonly index: string;
  readonly keyOf: (groupId: string) => string;
  /** Above 0, Celery's workers find our results, so they and our workers count the parts of a chord together. */
  readonly celeryResultMs: number;
}

/** Chords read per call. */
const LOOKED_AT = 1_000;

type Looked = readonly [] | readonly [1 | 2, parts: number, size: number, failed: number];

/**
 * The chords of a ledger. The index is only a hint: a chord may be in another hash slot, and Celery completes some
 * without updating it, so the reader checks the progress of each chord.
 */
export class RedisChords {
  readonly #connection: RedisConnection;
  readonly #keys: ChordKeys;

  constructor(connection: RedisConnection, keys: ChordKeys) {
    this.#connection = connection;
    this.#keys = keys;
  }

  async join(part: ChordPart): Promise<ChordAnswer> {
    const { keyOf, celeryResultMs } = this.#keys;
    const key = keyOf(part.groupId);
    const answer =
      celeryResultMs === 0
        ? await joinChord(this.#connection, key, part)
        : await joinCeleryChord(this.#connection, key, part);
    // After the part: an index entry for a chord that does not exist yet could be cleaned up in between.
    if (answer.status === 'complete') await this.#strike([part.groupId]);
    else await this.note(part.groupId);
    return answer;
  }

  async note(groupId: string): Promise<void> {
    await this.#connection.script(LUA.ledgerNoteChord, [this.#keys.index], [groupId]);
  }

  async open(limit: number): Promise<OpenChords> {
    const { index } = this.#keys;
    const most = Math.max(limit, LOOKED_AT);
    const [count, nowMs, noted] = await Promise.all([
      this.#connection.command('zcard', index),
      this.#connection.script(LUA.ledgerNow, [index], []),
      this.#connection.command('zrange', index, 0, most - 1, 'WITHSCORES'),
    ]);
    const open = await Promise.all(
      inPairs(noted as readonly Buffer[]).map(async ([groupId, sinceMs]): Promise<OpenChord[]> => {
        const [status, parts = 0, size = -1, failed = 0] = await this.#look(groupId, '');
        if (status === undefined) return [];
        const since = new Date(sinceMs).toISOString();
        const ageMs = Math.max(0, Number(nowMs) - sinceMs);
        const entry = { groupId, body: null, parts, failed, since, ageMs };
        return [{ ...entry, size: size < 0 ? null : size }];
      }),
    );
    const over = open.filter(one => one.length === 0).length;
    return { open: Math.max(0, Number(count) - over), oldest: open.flat().slice(0, limit) };
  }

  /** Drops chords untouched for a week, and removes from the index those that are not open. */
  async abandon(limit: number): Promise<readonly string[]> {
    const { index } = this.#keys;
    const noted = (await this.#connection.command(
      'zrange',
      index,
      0,
      limit - 1,
    )) as readonly Buffer[];
    const looked = await Promise.all(
      noted.map(String).map(async groupId => {
        const [status] = await this.#look(groupId, KEEP_OPEN_CHORD_MS);
        return { groupId, status };
      }),
    );
    await this.#strike(looked.filter(({ status }) => status !== 1).map(({ groupId }) => groupId));
    return looked.filter(({ status }) => status === 2).map(({ groupId }) => groupId);
  }

  async #look(groupId: string, abandonAfterMs: number | ''): Promise<Looked> {
    const { keyOf, celeryResultMs } = this.#keys;
    const args = [KEEP_MS, abandonAfterMs];
    const key = keyOf(groupId);
    const reply =
      celeryResultMs === 0
        ? await this.#connection.script(LUA.ledgerLookChord, [key], args)
        : await this.#connection.script(
            LUA.ledgerLookCeleryChord,
            [key, ...celeryChordKeys(groupId)],
            args,
          );
    return reply as Looked;
  }

  async #strike(groupIds: readonly string[]): Promise<void> {
    if (groupIds.length === 0) return;
    await this.#connection.command('zrem', this.#keys.index, ...groupIds);
  }
}

function inPairs(values: readonly Buffer[]): (readonly [string, number])[] {
  const pairs: (readonly [string, number])[] = [];
  for (let at = 0; at + 1 < values.length; at += 2) {
    pairs.push([String(values[at]), Number(String(values[at + 1]))]);
  }
  return pairs;
}
