import {
  checkPosition,
  startOf,
  tenantIn,
  type Position,
  type Slice,
  type TaskLine,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import { shownPayload } from '../../task/redacted.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { FoundRecord } from './redis-find.ts';
import { readRecord, type StoredRecord } from './redis-record.ts';

/** The sorted sets of a queue, with the length of what stands before the id in their members. */
const SETS = [
  ['ready:', 11],
  ['later:', 11],
  ['ready-suspects:', 11],
  ['later-suspects:', 11],
  ['aside-queue:', 0],
] as const;

const ANY = /^[^]*$/;
const SCORE = /^(\d{1,17}|\d(\.\d{1,17})?e\+\d{1,2})$/;

interface Store {
  readonly connection: RedisConnection;
  readonly roots: readonly string[];
}

/** A slice of one of the lists of a ledger in Redis. */
export async function walk(store: Store, request: WalkRequest): Promise<Slice> {
  switch (request.section) {
    case 'waiting':
      return await walkWaiting(store, request);
    case 'running':
      return await walkIds(store, request, runningIds, ({ state }) => state === 'running');
    case 'over':
      return await walkIds(store, request, newestIds, isOver);
  }
}

const isOver = ({ state }: StoredRecord): boolean => state === 'done' || state === 'cancelled';

interface WaitingSet {
  readonly key: string;
  readonly prefix: number;
  /** Sets are read in the order of these texts. */
  readonly name: string;
  readonly root: string;
}

async function walkWaiting(store: Store, { queue, after, limit }: WalkRequest): Promise<Slice> {
  if (after !== null) checkPosition(after, [ANY, SCORE, ANY]);
  const found: Slice[number][] = [];
  for (const set of await waitingSets(store, queue)) {
    if (found.length >= limit) break;
    if (after !== null && set.name < (after[0] ?? '')) continue;
    const from = set.name === after?.[0] ? after : null;
    found.push(...(await readSet(store.connection, set, from, limit - found.length)));
  }
  return found;
}

async function waitingSets(
  { connection, roots }: Store,
  only: string | null,
): Promise<readonly WaitingSet[]> {
  const lists = roots.map(async root => {
    const fields = (await connection.command('hkeys', `${root}running`)) as readonly Buffer[];
    const queues = fields.map(String).filter(queue => only === null || queue === only);
    return queues.flatMap(queue =>
      SETS.map(([set, prefix], place) => ({
        key: `${root}${set}${queue}`,
        prefix,
        name: `${root} ${queue} ${place}`,
        root,
      })),
    );
  });
  return (await Promise.all(lists)).flat().sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Members behind a position: by score, and of equal scores by their bytes, as Redis sorts them. */
async function readSet(
  connection: RedisConnection,
  { key, prefix, name, root }: WaitingSet,
  after: Position | null,
  limit: number,
): Promise<Slice> {
  const [, score = '-inf', last = ''] = after ?? [];
  const found: Slice[number][] = [];
  for (let at = 0; found.length < limit; at += limit) {
    const range = [key, score, '+inf', 'BYSCORE', 'LIMIT', at, limit, 'WITHSCORES'];
    const reply = (await connection.command('zrange', ...range)) as readonly Buffer[];
    const members: { readonly member: string; readonly score: string }[] = [];
    for (let place = 0; place + 1 < reply.length; place += 2)
      members.push({ member: String(reply[place]), score: String(reply[place + 1]) });
    const behind = members.filter(
      one =>
        after === null ||
        Number(one.score) > Number(score) ||
        Buffer.compare(Buffer.from(one.member), Buffer.from(last)) > 0,
    );
    const ids = behind.map(({ member }) => member.slice(prefix));
    const records = await readRecords(connection, root, ids);
    for (const [index, record] of records.entries()) {
      // It may have been begun since.
      if (record?.state !== 'waiting') continue;
      const { score: own, member } = behind[index] ?? { score: '', member: '' };
      found.push({ task: lineOf(ids[index] ?? '', record), at: [name, own, member] });
    }
    if (members.length < limit) break;
  }
  return found.slice(0, limit);
}

type ListIds = (connection: RedisConnection, root: string) => Promise<readonly string[]>;

/** Lists that are short: all ids are read, and the records of the slice. */
async function walkIds(
  { connection, roots }: Store,
  { after, limit }: WalkRequest,
  listIds: ListIds,
  isListed: (record: StoredRecord) => boolean,
): Promise<Slice> {
  if (after !== null) checkPosition(after, [ANY, ANY]);
  const [startRoot = '', startId = ''] = after ?? [];
  const found: Slice[number][] = [];
  for (const root of roots.toSorted()) {
    if (root < startRoot || found.length >= limit) continue;
    const ids = await listIds(connection, root);
    const from = root === startRoot ? ids.indexOf(startId) + 1 : 0;
    for (let at = from; at < ids.length && found.length < limit; at += limit) {
      const some = ids.slice(at, at + limit);
      for (const [index, record] of (await readRecords(connection, root, some)).entries()) {
        const id = some[index] ?? '';
        if (record !== null && isListed(record))
          found.push({ task: lineOf(id, record), at: [root, id] });
      }
    }
  }
  return found.slice(0, limit);
}

/** There are no more of them than workers have slots. */
const runningIds: ListIds = async (connection, root) => {
  const workers = (await connection.command('hkeys', `${root}workers`)) as readonly Buffer[];
  const lists = workers.map(
    async worker => (await connection.command('hkeys', `${root}r:${String(worker)}`)) as Buffer[],
  );
  return (await Promise.all(lists)).flat().map(String).sort();
};

/** The list of the newest tasks is limited by its bytes: `ledger-record.lua`. */
const newestIds: ListIds = async (connection, root) => {
  const lines = (await connection.command('get', `${root}newest`)) as Buffer | null;
  return [
    ...new Set(
      String(lines ?? '')
        .split('\n')
        .slice(0, -1)
        .toReversed(),
    ),
  ];
};

async function readRecords(
  connection: RedisConnection,
  root: string,
  ids: readonly string[],
): Promise<readonly (StoredRecord | null)[]> {
  if (ids.length === 0) return [];
  const raws = await connection.command('mget', ...ids.map(id => `${root}t:${id}`));
  return (raws as readonly (Buffer | null)[]).map(raw => (raw === null ? null : readRecord(raw)));
}

/** All that the ledger knows of a task. */
export async function viewOf(
  connection: RedisConnection,
  { root, record }: FoundRecord,
  id: string,
): Promise<TaskRecordView> {
  const [long, refuser, time] = await Promise.all([
    record.body === null ? connection.command('get', `${root}b:${id}`) : null,
    connection.command('hget', `${root}aside-by`, id),
    connection.command('time'),
  ]);
  const body = record.body ?? new Uint8Array((long as Buffer | null) ?? []);
  const { options, crashes, crashBudget, ending, history, result } = record;
  const [seconds, micros] = (time as readonly Buffer[]).map(part => Number(String(part)));
  return {
    ...lineOf(id, record),
    ...shownPayload({ body, options, redactedArgs: null, redactedKwargs: null }),
    ...(body.length === 0 ? { body } : {}),
    ending,
    history,
    result,
    isSuspect: crashes > 0 && crashes >= Math.min(2, crashBudget),
    refusedBy:
      refuser === null || record.state !== 'waiting' ? null : (refuser as Buffer).toString(),
    nowMs: (seconds ?? 0) * 1_000 + Math.floor((micros ?? 0) / 1_000),
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

function lineOf(id: string, record: StoredRecord): TaskLine {
  const { name, queue, state, epoch, failures, crashes, owner, why, error } = record;
  const isRunning = state === 'running';
  return {
    id,
    name,
    queue,
    state,
    epoch,
    failures,
    crashes,
    createdAt: iso(record.createdMs),
    dueAt: state === 'waiting' ? iso(record.dueMs) : null,
    startedAt: isRunning ? (startOf(record.history)?.at ?? null) : null,
    worker: isRunning ? owner : null,
    endedAt: record.ending === null ? null : iso(record.endedMs),
    reason: state === 'dead' ? why : null,
    // The reason of a discard.
    error: error?.message ?? (record.ending === 'discarded' ? why : null),
    tenant: tenantIn(record.options),
    orderingKey: null,
  };
}
