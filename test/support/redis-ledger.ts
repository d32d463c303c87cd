import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { MemoryGenerationStore } from './memory-generation-store.ts';
import { RedisClusterLedger } from '../../src/adapters/redis/redis-cluster-ledger.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { RedisGeneration } from '../../src/adapters/redis/redis-generation.ts';
import { RedisIdempotencyStore } from '../../src/adapters/redis/redis-idempotency-store.ts';
import { RedisLedgerReads } from '../../src/adapters/redis/redis-ledger-reads.ts';
import { RedisLedger } from '../../src/adapters/redis/redis-ledger.ts';
import { RedisPartitions } from '../../src/adapters/redis/redis-partitions.ts';
import { RedisResultStore } from '../../src/adapters/redis/redis-result-store.ts';
import type { GenerationStore } from '../../src/ledger/generation-store.ts';
import { unique } from '../conformance/envelopes.ts';
import { ledgerModel } from '../conformance/ledger-driver.ts';
import type { IdempotencyFixture } from '../conformance/idempotency.ts';
import type { LedgerReadsFixture } from '../conformance/ledger-reads.ts';
import type { ResultFixture } from '../conformance/result-store.ts';
import { auditRedisLedger } from './audit-redis-ledger.ts';
import { withRedis } from './redis-broker.ts';

/** A ledger of which a test sees the inside. */
export interface TestLedger extends LedgerReadsFixture, ResultFixture {
  readonly ledger: RedisLedger;
  readonly connection: RedisConnection;
  readonly root: string;
}

export interface TestLedgerOptions {
  readonly root?: string;
  readonly generations?: GenerationStore | null;
  readonly beginsWhenFull?: boolean;
  readonly celeryResultMs?: number;
  readonly consumer?: string;
  readonly isZeroFirst?: boolean;
}

/** A ledger with keys of its own, on a Redis that others may use. */
export async function openTestLedger(
  url: string,
  options: TestLedgerOptions = {},
): Promise<TestLedger> {
  const root = options.root ?? `outlast:${unique('ledger')}:`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name: 'test' });
  const generations =
    options.generations === undefined ? new MemoryGenerationStore() : options.generations;
  const generation = new RedisGeneration(connection, { root, node: 'test' }, generations);
  const { beginsWhenFull = false, celeryResultMs = 0, isZeroFirst = false } = options;
  const ledger = new RedisLedger(connection, root, generation, {
    beginsWhenFull,
    celeryResultMs,
    isZeroFirst,
    ...(options.consumer === undefined ? {} : { consumer: options.consumer }),
  });
  const roots = async (): Promise<readonly string[]> => [root];
  const reads = new RedisLedgerReads(connection, roots, ledger.chords);
  return {
    ledger,
    connection,
    root,
    reads,
    readModel: ledgerModel(reads),
    results: new RedisResultStore(connection, roots),
    write: null,
    forgetsByItself: true,
    advance: ms => advance(connection, [url], root, ms),
    dispose: async () => {
      await audit(connection, [url], [root]);
      await ledger.close();
    },
  };
}

export interface TestClusterLedger extends LedgerReadsFixture, ResultFixture {
  readonly ledger: RedisClusterLedger;
  readonly connection: RedisConnection;
  readonly parts: RedisPartitions;
}

/** A ledger on a cluster with these nodes; another process's view of one when both are given the same prefix. */
export async function openTestClusterLedger(
  url: string,
  nodes: readonly string[],
  prefix: string = `${unique('ledger')}:`,
): Promise<TestClusterLedger> {
  const connection = await RedisConnection.open({ url, role: 'ledger', name: 'test' });
  const generations = new MemoryGenerationStore();
  const options = {
    generations,
    prefix,
    node: 'test',
    beginsWhenFull: false,
    celeryResultMs: 0,
  };
  const parts = new RedisPartitions(connection, options);
  const ledger = new RedisClusterLedger(connection, parts);
  const roots = (): Promise<readonly string[]> => parts.roots();
  const reads = new RedisLedgerReads(connection, roots, ledger.chords);
  return {
    ledger,
    connection,
    parts,
    reads,
    readModel: ledgerModel(reads),
    results: new RedisResultStore(connection, roots),
    write: null,
    forgetsByItself: true,
    advance: ms => advance(connection, nodes, prefix, ms),
    dispose: async () => {
      await audit(connection, nodes, await parts.roots());
      await ledger.close();
    },
  };
}

/**
 * The clock of the server cannot be moved, so every stored time is: the positions of a record that hold one, and
 * scores.
 */
const SHIFT = `#!lua
local key, ms = KEYS[1], tonumber(ARGV[1])
if redis.call('TYPE', key).ok == 'zset' then
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -ms, member) end
  return
end
local left = redis.call('PTTL', key)
if string.find(key, ':slo:', 1, true) then
  local all = redis.call('HGETALL', key)
  redis.call('DEL', key)
  for place = 1, #all, 2 do
    local figure, start = string.match(all[place], '^(%l+):(%d+)$')
    redis.call('HSET', key, figure .. ':' .. string.format('%.0f', start - ms), all[place + 1])
  end
  return
end
if redis.call('TYPE', key).ok == 'hash' then
  if left > 0 then redis.call('PEXPIRE', key, left - ms) end
  return
end
local record = cmsgpack.unpack(redis.call('GET', key))
for _, place in ipairs({ 12, 18, 20, 26, 30 }) do
  if record[place] and record[place] > 0 then record[place] = record[place] - ms end
end
if left < 0 then
  redis.call('SET', key, cmsgpack.pack(record))
elseif left <= ms then
  redis.call('DEL', key)
else
  redis.call('SET', key, cmsgpack.pack(record), 'PX', left - ms)
end`;
const SHIFT_SCRIPT = { text: SHIFT, sha: createHash('sha1').update(SHIFT).digest('hex') };
const TIMED =
  /:(chord:.*|t:.*|slo:.*|(ready|later)(-suspects)?:.*|aside|aside(-queue)?:[^]*|dead|chords|leases|closed|after)$/;

async function advance(
  connection: RedisConnection,
  nodes: readonly string[],
  prefix: string,
  ms: number,
): Promise<void> {
  const timed = (await keysOf(nodes, prefix)).filter(key => TIMED.test(key));
  await Promise.all(timed.map(key => connection.script(SHIFT_SCRIPT, [key], [ms])));
}

/** The same for idempotency keys: when a key was taken, when it ends, and when it was last reviewed. */
const SHIFT_KEY = `#!lua
local key, ms = KEYS[1], tonumber(ARGV[1])
if redis.call('TYPE', key).ok == 'zset' then
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -ms, member) end
  return
end
local left = redis.call('PTTL', key)
redis.call('HINCRBY', key, 'held_at', -ms)
if left > 0 then redis.call('PEXPIRE', key, left - ms) end`;
const SHIFT_KEY_SCRIPT = {
  text: SHIFT_KEY,
  sha: createHash('sha1').update(SHIFT_KEY).digest('hex'),
};

/** Idempotency keys on a Redis that others may use: one server, or a cluster with these nodes. */
export async function openTestKeys(
  url: string,
  nodes: readonly string[] = [url],
): Promise<IdempotencyFixture> {
  const prefix = `${unique('keys')}:`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name: 'test' });
  return {
    store: new RedisIdempotencyStore(connection, prefix),
    advance: async ms => {
      const keys = await keysOf(nodes, prefix);
      await Promise.all(keys.map(key => connection.script(SHIFT_KEY_SCRIPT, [key], [ms])));
    },
    dispose: async () => connection.close(),
  };
}

async function keysOf(nodes: readonly string[], prefix: string): Promise<readonly string[]> {
  const lists = await Promise.all(
    nodes.map(url => withRedis(url, async redis => await redis.command('keys', `${prefix}*`))),
  );
  return (lists as Buffer[][]).flat().map(String);
}

/** Whatever a suite did to the ledger, its sets and counters must agree with its records. */
async function audit(
  connection: RedisConnection,
  nodes: readonly string[],
  roots: readonly string[],
): Promise<void> {
  for (const root of roots) {
    const keys = await keysOf(nodes, root);
    expect(await auditRedisLedger(connection, root, keys)).toEqual([]);
  }
}
