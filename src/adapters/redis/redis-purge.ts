import type { PurgeReply, PurgeRequest } from '../../outbox/outbox-store.ts';
import { globPattern } from '../../task/glob.ts';
import { LUA } from './lua.generated.ts';
import { RedisConnection } from './redis-connection.ts';
import { withIsolation } from './redis-batch.ts';
import { pack } from './redis-pack.ts';
import { isWrongType } from './redis-errors.ts';
import { bindingKey, ownBinding, queueKeys } from './redis-keys.ts';
import { type StoredRecord, readRecord } from './redis-record.ts';

const CHUNK = 500;

/**
 * Ends matching dead tasks, oldest death first. Finding and ending them are two steps; the second names the death, so a
 * task that was revived in between, or died again, is left alone.
 */
export async function purgeDead(
  connection: RedisConnection,
  roots: readonly string[],
  request: PurgeRequest,
): Promise<PurgeReply> {
  const found = (await Promise.all(roots.map(root => findDead(connection, root, request)))).flat();
  found.sort((a, b) => a.record.endedMs - b.record.endedMs || (a.id < b.id ? -1 : 1));
  if (request.isDryRun) return countByName(found);
  const oldest = found.slice(0, request.limit);
  const ended = await Promise.all(
    roots.map(root =>
      endAll(
        connection,
        root,
        oldest.filter(task => task.root === root),
      ),
    ),
  );
  return countByName(ended.flat());
}

async function findDead(
  connection: RedisConnection,
  root: string,
  { olderThanDeadMs, olderThanCreatedMs, taskName, limit, isDryRun }: PurgeRequest,
): Promise<DeadTask[]> {
  const nowMs = (await connection.script(LUA.ledgerNow, [root], [])) as number;
  const beforeMs = olderThanDeadMs === null ? null : nowMs - olderThanDeadMs;
  const pattern = globPattern(taskName ?? '*');
  const found: DeadTask[] = [];
  for await (const task of walkDead(connection, root, {
    order: 'oldest',
    fromMs: null,
    beforeMs,
  })) {
    const { name, createdMs } = task.record;
    const isOld = olderThanCreatedMs === null || createdMs < nowMs - olderThanCreatedMs;
    if (isOld && pattern.test(name)) found.push(task);
    if (!isDryRun && found.length === limit) break;
  }
  return found;
}

async function endAll(
  connection: RedisConnection,
  root: string,
  tasks: readonly DeadTask[],
): Promise<DeadTask[]> {
  const ended: DeadTask[] = [];
  for (let at = 0; at < tasks.length; at += CHUNK) {
    const some = tasks.slice(at, at + CHUNK);
    const items = pack(some.map(({ id, record }) => [id, record.deaths]));
    const scope = { ids: some.map(({ id }) => id) };
    const step = (): Promise<unknown> => connection.script(LUA.ledgerPurge, [root], [items]);
    const statuses = await withIsolation(connection, root, scope, step);
    ended.push(...some.filter((_, index) => (statuses as readonly number[])[index] === 1));
  }
  return ended;
}

function countByName(tasks: readonly DeadTask[]): PurgeReply {
  const counts = new Map<string, number>();
  for (const { record } of tasks) counts.set(record.name, (counts.get(record.name) ?? 0) + 1);
  const sorted = [...counts].map(([name, count]) => ({ name, count }));
  return { counts: sorted.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

/** Keys per step of a scan. */
const SCANNED = 1_000;

/** Unread messages in a queue of the broker. */
export interface UnreadQueue {
  readonly queue: string;
  readonly messages: number;
}

/**
 * The broker's queues that are not empty, ours and Celery's: both list the queues they have sent to, except on a
 * cluster, for which nothing is reported.
 */
export async function unreadQueues(url: string): Promise<readonly UnreadQueue[]> {
  const name = `outlast-check-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'broker', name });
  try {
    const queues = connection.isCluster ? [] : await declaredQueues(connection);
    const counts = await Promise.all(queues.map(queue => countMessages(connection, queue)));
    return queues.flatMap((queue, at) => (counts[at] ? [{ queue, messages: counts[at] }] : []));
  } finally {
    connection.close();
  }
}

async function declaredQueues(connection: RedisConnection): Promise<readonly string[]> {
  const prefix = bindingKey('');
  const found = new Set<string>();
  let cursor = '0';
  do {
    const args = [cursor, 'match', `${prefix}*`, 'count', SCANNED];
    const reply = await connection.command('scan', ...args);
    const [next, keys] = reply as readonly [Buffer, readonly Buffer[]];
    for (const key of keys) found.add(String(key).slice(prefix.length));
    cursor = String(next);
  } while (cursor !== '0');
  const isQueue = await Promise.all([...found].map(queue => isDeclared(connection, queue)));
  return [...found].filter((_, at) => isQueue[at]).sort();
}

async function isDeclared(connection: RedisConnection, queue: string): Promise<boolean> {
  try {
    return (await connection.command('sismember', bindingKey(queue), ownBinding(queue))) === 1;
  } catch (error) {
    if (isWrongType(error)) return false;
    throw error;
  }
}

async function countMessages(connection: RedisConnection, queue: string): Promise<number> {
  const { lists } = queueKeys(queue, false);
  const lengths = await Promise.all(lists.map(list => lengthOf(connection, list)));
  return lengths.reduce<number>((sum, length) => sum + length, 0);
}

/** Any client may have bound a key that is not a list: it holds no messages to count. */
async function lengthOf(connection: RedisConnection, list: string): Promise<number> {
  try {
    return Number(await connection.command('llen', list));
  } catch (error) {
    if (isWrongType(error)) return 0;
    throw error;
  }
}

/** A dead task, with its key root. */
export interface DeadTask {
  readonly id: string;
  readonly root: string;
  readonly record: StoredRecord;
}

export interface DeadWalk {
  readonly order: 'newest' | 'oldest';
  /** Where to start, by time of death; null: at the first end. */
  readonly fromMs: number | null;
  /** Deaths from this time on are left out; null: none. */
  readonly beforeMs: number | null;
}

/** Records per read. */
const PAGE = 200;

/** The dead tasks under one root, ordered by time of death, then id. */
export async function* walkDead(
  connection: RedisConnection,
  root: string,
  walk: DeadWalk,
): AsyncGenerator<DeadTask, void, undefined> {
  const isNewest = walk.order === 'newest';
  const lowest = !isNewest && walk.fromMs !== null ? String(walk.fromMs) : '-inf';
  const from = isNewest && walk.fromMs !== null ? String(walk.fromMs) : '+inf';
  const highest = walk.beforeMs === null ? from : `(${walk.beforeMs}`;
  const bounds = isNewest ? [highest, lowest, 'BYSCORE', 'REV'] : [lowest, highest, 'BYSCORE'];
  for (let at = 0; ; at += PAGE) {
    const range = [`${root}dead`, ...bounds, 'LIMIT', at, PAGE];
    const ids = ((await connection.command('zrange', ...range)) as readonly Buffer[]).map(String);
    if (ids.length === 0) return;
    const raws = await connection.command('mget', ...ids.map(id => `${root}t:${id}`));
    for (const [index, raw] of (raws as readonly (Buffer | null)[]).entries()) {
      const record = raw === null ? null : readRecord(raw);
      // It may have been revived or purged since the list was read.
      if (record?.state === 'dead') yield { id: ids[index] ?? '', root, record };
    }
    if (ids.length < PAGE) return;
  }
}
