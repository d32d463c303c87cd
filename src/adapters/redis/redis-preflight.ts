import { outlastError } from '../../errors/error.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/**
 * Refuses a Redis that may forget by itself, and tells of one that forgets when it stops. Returns warnings.
 * `INFO` says all of it, so that no right to read the configuration is needed.
 */
export async function checkRedis(
  connection: RedisConnection,
  roots: readonly string[],
  maskedUrl: string,
): Promise<readonly string[]> {
  const texts = connection.isCluster
    ? await Promise.all(roots.map(root => connection.script(LUA.ledgerInfo, [root], [])))
    : [await connection.command('info')];
  const warnings = texts.flatMap(text => checkInfo(String(text), connection.isCluster, maskedUrl));
  return [...new Set(warnings)];
}

function checkInfo(info: string, isCluster: boolean, maskedUrl: string): readonly string[] {
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
    `Redis at ${maskedUrl} has no append-only file: tasks that are in the ledger alone are lost when it stops. Set appendonly yes, and appendfsync always where none may be lost.`,
  ];
}

function refusal(message: string, hint: string): Error {
  return outlastError('ERR_CONFIG_TIER', { message, hint, fields: { option: 'ledger' } });
}
