import type { CeleryChords, ChordAnswer, ChordPart } from '../../ledger/ledger.ts';
import { KEEP_OPEN_CHORD_MS, type OpenChord, type OpenChords } from '../../ledger/open-chord.ts';
import { LUA } from './lua.generated.ts';
import { RedisConnection } from './redis-connection.ts';
import { itemsOf, membersOf } from '../../task/json-slices.ts';
import { resultsInShape } from './chord-shape.ts';
import { chordOf } from '../../task/chord-link.ts';
import type { ChordSize, Envelope } from '../../task/envelope.ts';
import { readCeleryResult } from './redis-result-store.ts';
import { redisTeller } from './redis-tell.ts';

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

  /** Before the headers of these chords are sent. */
  async announce(messages: readonly Envelope[]): Promise<void> {
    const chords = messages.flatMap(message => chordOf(message) ?? []);
    await announceChords(this.#connection, this.#keys.keyOf, chords);
    for (const groupId of new Set(chords.map(chord => chord.groupId))) await this.note(groupId);
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

/** How long keys live after their last use: a day more than a chord may wait, so that forgotten ones can be recognized. */
const KEEP_MS: number = KEEP_OPEN_CHORD_MS + 86_400_000;

/** Counts a part of the chord stored under this key. */
async function joinChord(
  connection: RedisConnection,
  key: string,
  { index, size, result, isSigned }: ChordPart,
): Promise<ChordAnswer> {
  const value = result === null ? '-' : `${isSigned === true ? '+' : '~'}${result}`;
  const args = [index, size ?? '', value, KEEP_MS];
  const reply = await connection.script(LUA.ledgerJoinChord, [key], args);
  const [status, results = [], signed] = reply as readonly [number, (readonly Buffer[])?, number?];
  if (status === 3)
    return { status: 'complete', results: results.map(String), isSigned: signed === 1 };
  return { status: status === 2 ? 'failed' : 'open' };
}

const shapeKey = (groupId: string): string => `celery-taskset-meta-${groupId}`;

/** Where Celery's workers count the parts of a chord: the parts, a correction of their number, and the number. */
const celeryChordKeys = (groupId: string): readonly [string, string, string] => {
  const key = shapeKey(groupId);
  return [`${key}.j`, `${key}.t`, `${key}.s`];
};

/** Counts a part of a chord that Celery's workers may run other parts of. */
async function joinCeleryChord(
  connection: RedisConnection,
  chord: string,
  part: ChordPart,
): Promise<ChordAnswer> {
  const { groupId, index, size, taskId, result } = part;
  const keys = [chord, ...celeryChordKeys(groupId), shapeKey(groupId)];
  const member = `[1, ${JSON.stringify(taskId)}, "SUCCESS", ${result ?? 'null'}]`;
  const value = result === null ? '-' : part.isSigned === true ? '+' : '~';
  const args = [index, size ?? '', value, member, KEEP_MS, taskId];
  const reply = await connection.script(LUA.ledgerJoinCeleryChord, keys, args);
  const [status, detail, signed, shape] = reply as readonly [
    number,
    (readonly Buffer[] | Buffer)?,
    number?,
    (Buffer | null)?,
  ];
  switch (status) {
    case 2:
      return { status: 'failed' };
    case 3:
      return {
        status: 'complete',
        results: resultsInShape((detail as readonly Buffer[]).map(String), shape),
        isSigned: signed === 1,
      };
    case 4:
      return failedPart(String(detail));
    default:
      return { status: 'open' };
  }
}

/** A part that Celery has counted as failed: `[1, id, state, exception]`. */
function failedPart(member: string): ChordAnswer {
  const [, id = '""', state = '""', value = 'null'] = itemsOf(member);
  const taskId = String(JSON.parse(id));
  const meta = readCeleryResult(`{"status": ${state}, "result": ${value}}`);
  const why = meta?.error ?? {
    type: 'TaskRevokedError',
    message: meta?.ending ?? '',
    traceback: '',
  };
  return { status: 'failed', taskId, cause: why };
}

/**
 * Writes the sizes of chords whose headers are about to be sent to where Celery's workers look: otherwise a header that
 * only they run would never complete. Written before the messages, as Celery does. Completing a chord removes it.
 */
async function announceChords(
  connection: RedisConnection,
  keyOf: ChordKeys['keyOf'],
  chords: readonly ChordSize[],
): Promise<void> {
  const sizes = new Map(chords.map(({ groupId, size }) => [groupId, size]));
  for (const [groupId, size] of sizes) {
    const [, , total] = celeryChordKeys(groupId);
    const keys = [`${keyOf(groupId)}:announced`, total];
    await connection.script(LUA.ledgerAnnounceCeleryChord, keys, [size, KEEP_MS]);
  }
}

/** Chords in the Redis of Celery's results, beside a ledger that is elsewhere. */
export interface OpenCeleryChords extends CeleryChords {
  readonly close: () => Promise<void>;
}

const ROOT = 'outlast:celery-chords';
const keyOf = (groupId: string): string => `${ROOT}:${groupId}`;
/** As long as Celery keeps results by default. */
const RESULT_MS = 86_400_000;

/** It connects when it is first asked for something. */
export async function openCeleryChords(url: string): Promise<OpenCeleryChords> {
  const name = `outlast-chords-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name });
  const chords = new RedisChords(connection, {
    index: ROOT,
    keyOf,
    celeryResultMs: RESULT_MS,
  });
  return {
    announce: async sizes => await announceChords(connection, keyOf, sizes),
    join: part => chords.join(part),
    tell: redisTeller(connection, `${ROOT}:`, RESULT_MS),
    store: async replies => {
      for (const { body } of replies) {
        const id = String(JSON.parse(membersOf(body).get('task_id') ?? '""'));
        const keys = [`celery-task-meta-${id}`];
        await connection.script(LUA.celeryStore, keys, [body, RESULT_MS]);
      }
    },
    close: async () => connection.close(),
  };
}
