import { RedisConnection } from './redis-connection.ts';
import { isWrongType } from './redis-errors.ts';
import { bindingKey, ownBinding, queueKeys } from './redis-keys.ts';

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
