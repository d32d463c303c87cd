import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { MemoryGenerationStore } from '../support/memory-generation-store.ts';
import {
  openRedisLedger,
  type OpenRedisLedgerOptions,
  type RedisLedgerStores,
} from '../../src/adapters/redis/open-redis-ledger.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver, ledgerModel } from '../conformance/ledger-driver.ts';
import { until } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedisCluster, type OwnCluster } from '../support/redis-cluster.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { redisUrl } from '../support/servers.ts';

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

async function open(
  url: string,
  options: Partial<OpenRedisLedgerOptions> = {},
): Promise<RedisLedgerStores> {
  const stores = await openRedisLedger(url, {
    generations: new MemoryGenerationStore(),
    beginsWhenFull: false,
    celeryResultMs: 0,
    ...options,
  });
  onTestFinished(() => stores.close());
  return stores;
}

const drive = ({ ledger, reads, results }: RedisLedgerStores): LedgerDriver =>
  new LedgerDriver({
    ledger,
    results,
    readModel: ledgerModel(reads),
    advance: async () => undefined,
    dispose: async () => undefined,
  });

describe('preflight', () => {
  it('accepts a Redis that evicts nothing and writes everything to disk', async () => {
    const server = await own(['--appendonly', 'yes']);
    expect(await (await open(server.url)).preflight()).toEqual([]);
  });

  it('warns about a Redis without an append-only file, and shows no password', async () => {
    const server = await own(['--requirepass', 'hidden']);
    const [warning, ...others] = await (
      await open(server.url.replace('redis://', 'redis://:hidden@'))
    ).preflight();
    expect(warning).toContain('append-only');
    expect(warning).not.toContain('hidden');
    expect(others).toEqual([]);
  });

  it.each(['allkeys-lru', 'volatile-ttl'])('refuses maxmemory-policy %s', async policy => {
    const server = await own(['--maxmemory-policy', policy]);
    await expect((await open(server.url)).preflight()).rejects.toMatchObject({
      code: 'ERR_CONFIG_TIER',
      message: expect.stringContaining(policy) as string,
    });
  });

  it('refuses a cluster node that is configured as a single server', async () => {
    const server = await own(['--cluster-enabled', 'yes']);
    await expect((await open(server.url)).preflight()).rejects.toMatchObject({
      code: 'ERR_CONFIG_TIER',
      message: expect.stringContaining('cluster') as string,
    });
  });

  it('reports that the server does not answer', async () => {
    await expect((await open('redis://127.0.0.1:1/0')).preflight()).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
    });
  });
});

describe('a Redis user without permission for INFO', () => {
  it('has a ledger that detects the loss of all data', async () => {
    const server = await own();
    await withRedis(server.url, redis =>
      redis.command('acl', 'setuser', 'plain', 'on', '>word', '~*', '&*', '+@all', '-info'),
    );
    const driver = drive(await open(server.url.replace('redis://', 'redis://plain:word@')));
    const { task } = await driver.running();
    await withRedis(server.url, redis => redis.command('flushall'));
    const { task: next } = await driver.running();
    expect(next.epoch).toBeGreaterThan(task.epoch);
    expect(await driver.commit(next)).toBe('ok');
  });
});

describe('several processes on a cluster', () => {
  let cluster: OwnCluster;
  const generations = new MemoryGenerationStore();
  const another = async (): Promise<LedgerDriver> =>
    drive(await open(cluster.url, { generations }));

  beforeAll(async () => {
    cluster = await startRedisCluster();
  });

  afterAll(async () => {
    await cluster.dispose();
  });

  it('beat, settle and condemn for each other', async () => {
    const [main, heartbeat, supervisor] = [await another(), await another(), await another()];
    const { worker, process } = await main.open();
    const tasks = makeEnvelopes(6).map(task => ({ ...task, queue: unique('queue') }));
    const { begun } = await main.begin(worker, { messages: tasks });
    const reply = await heartbeat.ledger.renew(worker);
    if (reply.status !== 'open') throw new Error('closed');
    expect(ids(reply.runs ?? []).sort()).toEqual(ids(tasks).sort());
    const [first, ...rest] = begun;
    if (first === undefined) throw new Error('nothing was begun');
    expect(await heartbeat.release(first)).toBe('ok');
    expect(await heartbeat.commit(first)).toBe('stale');
    const { workers } = await supervisor.ledger.condemn({ kind: 'process', process });
    expect(workers).toEqual([worker]);
    const { returned } = await supervisor.reapAll();
    expect(ids(returned)).toEqual(expect.arrayContaining(ids(rest)));
    expect(await heartbeat.ledger.renew(worker)).toEqual({ status: 'closed' });
    // Also a queue that this process never used.
    const request = main.request(worker, { messages: [makeEnvelope()] });
    expect(await main.ledger.begin(request)).toEqual({ status: 'closed' });
  });

  it('lose all tasks of an incarnation when one part of it is closed', async () => {
    const main = await another();
    const { worker } = await main.open();
    const tasks = makeEnvelopes(4).map(task => ({ ...task, queue: unique('queue') }));
    await main.begin(worker, { messages: tasks });
    const [lost, ...others] = tasks;
    if (lost === undefined) throw new Error('no task');
    // The node of one queue was unreachable for longer than the lease.
    const key = `outlast:ledger:{${lost.queue}}:leases`;
    await onEveryNode(node => node.command('zrem', key, worker).catch(() => null));
    expect(await main.ledger.renew(worker)).toEqual({ status: 'closed' });
    const { returned } = await (await another()).reapAll();
    expect(ids(returned)).toEqual(expect.arrayContaining(ids(others)));
  });

  it('find a task by its id alone, also one that was cancelled before it arrived', async () => {
    const [main, other] = [await another(), await another()];
    const waiting = makeEnvelope();
    await main.put(waiting);
    expect(await other.state(waiting.id)).toBe('waiting');
    expect(await other.ledger.cancel(waiting.id)).toBe('ok');
    expect(await main.state(waiting.id)).toBe('cancelled');
    const unseen = makeEnvelope({ queue: unique('queue') });
    expect(await other.ledger.cancel(unseen.id)).toBe('ok');
    const { worker } = await main.open();
    const reply = await main.begin(worker, { messages: [unseen] });
    expect(reply).toMatchObject({ answers: ['held'], begun: [] });
  });

  it('continue with the other queues when a node is unreachable', async () => {
    const main = await another();
    const { worker } = await main.open();
    const tasks = makeEnvelopes(12).map(task => ({ ...task, queue: unique('queue') }));
    const { begun } = await main.begin(worker, { messages: tasks });
    const node = cluster.nodes[2];
    if (node === undefined) throw new Error('no third node');
    await node.stop('SIGKILL');
    const answers = await Promise.all(
      begun.map(task => main.commit(task).catch((error: { code?: string }) => error.code)),
    );
    await node.start();
    expect(answers).toContain('ok');
    expect(new Set(answers)).toEqual(new Set(['ok', 'ERR_STORE_UNAVAILABLE']));
    // The tasks of that node are unreachable with it, and that is not taken for success.
    const rest = begun.filter((_, index) => answers[index] !== 'ok');
    for (const task of rest) {
      expect(await until(() => main.commit(task).catch(() => null))).toBe('absent');
    }
  });

  it('refuse to write results for Celery, which does not support clusters', async () => {
    await expect(open(cluster.url, { celeryResultMs: 1_000 })).rejects.toMatchObject({
      code: 'ERR_CONFIG_TIER',
    });
  });

  async function onEveryNode(
    ask: (redis: Parameters<Parameters<typeof withRedis>[1]>[0]) => Promise<unknown>,
  ): Promise<void> {
    for (const { url } of cluster.nodes) await withRedis(url, ask);
  }
});

describe('dates that a script writes', () => {
  it('are correct calendar dates', async () => {
    const folder = new URL('../../src/adapters/redis/lua/includes/', import.meta.url);
    const source = readFileSync(new URL('celery-result.lua', folder), 'utf8');
    const text = `local now_ms = tonumber(ARGV[1])\n${source}\nreturn iso_json()`;
    await withRedis(redisUrl(), async redis => {
      const instants = fc.integer({ min: 0, max: Date.UTC(2400, 0, 1) });
      const property = fc.asyncProperty(instants, async ms => {
        const written = String(await redis.command('eval', text, 0, ms));
        expect(written).toBe(`"${new Date(ms).toISOString().replace('Z', '000+00:00')}"`);
      });
      const leapDays = [
        Date.UTC(2000, 1, 29),
        Date.UTC(2028, 1, 29),
        Date.UTC(2100, 1, 28, 23, 59),
      ];
      await fc.assert(property, { numRuns: 300, examples: leapDays.map(ms => [ms]) });
    });
  });
});
