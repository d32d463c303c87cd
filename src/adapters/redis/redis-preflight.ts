import { maskUrl } from '../../errors/mask-secrets.ts';
import { outlastError } from '../../errors/error.ts';
import { LUA } from './lua.generated.ts';
import { RedisConnection } from './redis-connection.ts';
import { queueKeys } from './redis-keys.ts';

/** A Redis from the configuration. */
export interface CheckedRedis {
  readonly option: 'ledger' | 'broker';
  readonly url: string;
}

/** The same for a broker, whose queues a cluster has on several nodes. */
export async function checkRedisBroker(
  url: string,
  queues: readonly string[],
): Promise<readonly string[]> {
  const name = `outlast-check-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'broker', name });
  try {
    const keys = queues.map(queue => queueKeys(queue, true).leases);
    return await checkRedis(connection, keys, { option: 'broker', url });
  } finally {
    connection.close();
  }
}

/**
 * Refuses a Redis that may evict data, and warns about one that loses it when it stops. Returns warnings. `INFO` is
 * enough, so no permission to read the configuration is needed. On a cluster, the nodes with these keys are checked.
 */
export async function checkRedis(
  connection: RedisConnection,
  keys: readonly string[],
  checked: CheckedRedis,
): Promise<readonly string[]> {
  const texts = connection.isCluster
    ? await Promise.all(keys.map(key => connection.script(LUA.ledgerInfo, [key], [])))
    : [await connection.command('info')];
  const warnings = texts.flatMap(text => checkInfo(String(text), connection.isCluster, checked));
  return [...new Set(warnings)];
}

function checkInfo(
  info: string,
  isCluster: boolean,
  { option, url }: CheckedRedis,
): readonly string[] {
  const maskedUrl = maskUrl(url);
  const refusal = (message: string, hint: string): Error =>
    outlastError('ERR_CONFIG_TIER', { message, hint, fields: { option } });
  const field = (name: string): string =>
    new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';
  const policy = field('maxmemory_policy');
  if (policy !== 'noeviction') {
    throw refusal(
      `Redis at ${maskedUrl} throws keys away when its memory is full (maxmemory-policy ${policy})`,
      'Set maxmemory-policy to noeviction: a task that is thrown away is lost.',
    );
  }
  if (field('redis_mode') === 'cluster' && !isCluster) {
    throw refusal(
      `Redis at ${maskedUrl} is a node of a cluster`,
      'Name it as redis+cluster://host:port, with one or more of its nodes.',
    );
  }
  if (field('aof_enabled') === '1') return [];
  return [
    `Redis at ${maskedUrl} has no append-only file: tasks that are there alone are lost when it stops. Set appendonly yes.`,
  ];
}
