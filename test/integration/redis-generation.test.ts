import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MemoryGenerationStore } from '../support/memory-generation-store.ts';
import type { BegunTask } from '../../src/ledger/ledger.ts';
import { makeEnvelope } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { until } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisWithLateReplica, redisWithTornFile } from '../support/redis-loss.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const root = 'outlast:generation:';

async function open(url: string, generations: MemoryGenerationStore): Promise<LedgerDriver> {
  const fixture = await openTestLedger(url, { root, generations });
  onTestFinished(() => fixture.ledger.close());
  return new LedgerDriver(fixture);
}

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(['--repl-diskless-sync-delay', '0', ...args]);
  onTestFinished(() => server.dispose());
  return server;
}

/** Repeats a failed call at once, so that one call always waits for the next connection. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch {
      await nextTurn();
    }
  }
}

describe.each([
  ['the end of its append-only file', redisWithTornFile],
  ['its primary before the replica had everything', redisWithLateReplica],
])('a begin that waits while Redis loses %s', (_what, lossy) => {
  it('gives out no epoch twice', async () => {
    const redis = await lossy();
    const generations = new MemoryGenerationStore();
    const [one, two] = [await open(redis.url, generations), await open(redis.url, generations)];
    const envelope = makeEnvelope();
    const workers = [(await one.open()).worker, (await two.open()).worker] as const;
    // Both have begun a task, so they know the server.
    for (const [n, driver] of [one, two].entries())
      await driver.begin(workers[n] as string, { messages: [makeEnvelope()] });
    await redis.mark();
    const before = await one.begin(workers[0], { messages: [envelope] });
    const first = before.begun[0] as BegunTask;
    let waiting: Promise<BegunTask | undefined> = Promise.resolve(undefined);
    await redis.forget(async () => {
      waiting = insist(async () => {
        const { begun } = await two.begin(workers[1], { messages: [envelope] });
        return begun[0];
      });
    });
    const second = (await waiting) as BegunTask;
    expect(second.epoch).toBeGreaterThan(first.epoch);
    expect(await two.commit(first)).toBe('stale');
    expect(await two.commit(second)).toBe('ok');
  });
});

describe('a primary that becomes a replica and a primary again', () => {
  it('gives out higher epochs, also on connections that never broke', async () => {
    const server = await own();
    const other = await own(['--replicaof', '127.0.0.1', String(server.port)]);
    const tell = (to: OwnRedis, ...words: readonly (string | number)[]): Promise<unknown> =>
      withRedis(to.url, redis => redis.command(words[0] as string, ...words.slice(1)));
    const copied = (): Promise<unknown> =>
      until(async () => /master_link_status:up/.test(String(await tell(other, 'info'))));
    await copied();
    const generations = new MemoryGenerationStore();
    const driver = await open(server.url, generations);
    const { worker } = await driver.open();
    await driver.begin(worker, { messages: [makeEnvelope()] });
    await until(() =>
      withRedis(server.url, async redis => {
        await redis.command('set', 'mark', '1');
        return (await redis.command('wait', 1, 1_000)) === 1;
      }),
    );
    await tell(other, 'replicaof', 'no', 'one');
    const envelope = makeEnvelope();
    const { begun } = await driver.begin(worker, { messages: [envelope] });
    // It copies the data of the other server, which does not know that run, and becomes the primary again.
    await tell(server, 'replicaof', '127.0.0.1', other.port);
    await until(async () => /master_link_status:up/.test(String(await tell(server, 'info'))));
    await tell(server, 'replicaof', 'no', 'one');
    const again = await driver.begin(worker, { messages: [envelope] });
    expect(again.begun[0]?.epoch).toBeGreaterThan(begun[0]?.epoch ?? Infinity);
  });
});

describe('a primary that was replaced and is still up', () => {
  it('gives out higher epochs than its replacement to a worker that is led back to it', async () => {
    const server = await own();
    const replica = await own(['--replicaof', '127.0.0.1', String(server.port)]);
    const tell = (...words: readonly [string, ...string[]]): Promise<unknown> =>
      withRedis(replica.url, redis => redis.command(...words));
    await until(async () => /master_link_status:up/.test(String(await tell('info'))));
    const proxy = await TcpProxy.to(server.url);
    onTestFinished(() => proxy.close());
    const generations = new MemoryGenerationStore();
    const [one, two] = [
      await open(proxy.url(server.url), generations),
      await open(proxy.url(server.url), generations),
    ];
    const [{ worker }, { worker: other }] = [await one.open(), await two.open()];
    for (const [driver, as] of [[one, worker] as const, [two, other] as const])
      await driver.begin(as, { messages: [makeEnvelope()] });
    // The replica has all of it.
    await until(() =>
      withRedis(server.url, async redis => {
        await redis.command('set', 'mark', '1');
        return (await redis.command('wait', 1, 1_000)) === 1;
      }),
    );
    await tell('replicaof', 'no', 'one');
    const envelope = makeEnvelope();
    proxy.redirect(replica.url);
    proxy.cut();
    const there = await insist(() => two.begin(other, { messages: [envelope] }));
    // The first worker has seen nothing of the replacement.
    proxy.redirect(server.url);
    proxy.cut();
    const here = await insist(() => one.begin(worker, { messages: [envelope] }));
    expect(here.begun[0]?.epoch).toBeGreaterThan(there.begun[0]?.epoch ?? Infinity);
  });
});

describe('a count of running tasks that fell below zero', () => {
  it('is never shown as negative, and is right again when the next task has ended', async () => {
    const server = await own();
    const fixture = await openTestLedger(server.url, { root });
    onTestFinished(() => fixture.ledger.close());
    const driver = new LedgerDriver(fixture);
    const { envelope, task } = await driver.running();
    const running = async (): Promise<number> => (await fixture.reads.sample(0)).tasks.running;
    // As a torn file leaves it: the run is known, its count is not.
    await fixture.connection.command('hset', `${root}running`, envelope.queue, -3);
    expect(await running()).toBe(0);
    await driver.commit(task);
    expect(await running()).toBe(0);
    const next = makeEnvelope({ queue: envelope.queue });
    await driver.running(next);
    expect(await running()).toBe(1);
  });
});
