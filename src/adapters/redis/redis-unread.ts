import { RedisConnection } from './redis-connection.ts';
import { bindingKey, ownBinding, queueKeys } from './redis-keys.ts';

/** Keys looked at with each step of a scan. */
const SCANNED = 1_000;

/** Messages that lie in a queue of the broker. */
export interface UnreadQueue {
  readonly queue: string;
  readonly messages: number;
}

/**
 * The queues of a broker in which something lies, ours and Celery's: both say which queues they have sent to, except on
 * a cluster, of which nothing is told.
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
  const isQueue = await Promise.all(
    [...found].map(queue => connection.command('sismember', bindingKey(queue), ownBinding(queue))),
  );
  return [...found].filter((_, at) => isQueue[at] === 1).sort();
}

async function countMessages(connection: RedisConnection, queue: string): Promise<number> {
  const { lists } = queueKeys(queue, false);
  const lengths = await Promise.all(lists.map(list => connection.command('llen', list)));
  return lengths.reduce<number>((sum, length) => sum + Number(length), 0);
}
