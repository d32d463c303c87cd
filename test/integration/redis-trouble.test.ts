import { describe, expect, it, onTestFinished } from 'vitest';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openRedisBroker, type RedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import type { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { queueKeys } from '../../src/adapters/redis/redis-keys.ts';
import type { Delivery, PublishOutcome } from '../../src/broker/broker.ts';
import { isUnavailable } from '../../src/errors/error.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { gate, until } from '../support/database.ts';
import { openTestBroker, withRedis } from '../support/redis-broker.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { ping, startRedis, type OwnRedis } from '../support/redis-server.ts';

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

async function open(url: string): Promise<RedisBroker> {
  const broker = await openRedisBroker(url);
  onTestFinished(() => broker.close());
  return broker;
}

const idsOf = (deliveries: readonly Delivery[]): string[] =>
  ids(deliveries.map(({ message }) => message as Envelope));
const statuses = (outcomes: readonly PublishOutcome[]): string[] =>
  outcomes.map(({ status }) => status);

/** Publishes until the broker confirms; attempts whose answer was lost may leave copies. */
async function publishAtLast(broker: RedisBroker, message: Envelope): Promise<void> {
  await until(async () => statuses(await broker.publish([message]))[0] === 'confirmed');
}

describe('a Redis that restarts', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'still has waiting and held messages after %s',
    async signal => {
      const server = await own(['--appendonly', 'yes']);
      // The lease outlives the restart, so that the held messages stay with the consumer.
      const { broker } = await openTestBroker(server.url);
      onTestFinished(() => broker.close());
      const queue = unique('queue');
      const [held, waiting] = makeEnvelopes(2, { queue }) as [Envelope, Envelope];
      await broker.publish([held, waiting]);
      const taken = await broker.take([queue], 1);
      await server.stop(signal);
      expect(statuses(await broker.publish([waiting]))).toEqual(['unavailable']);
      await expect(broker.take([queue], 1)).rejects.toMatchObject({
        code: 'ERR_BROKER_UNAVAILABLE',
      });
      await server.start();
      const next = await until(() => broker.take([queue], 5).catch(() => null));
      expect(idsOf(next)).toEqual([waiting.id]);
      await broker.ack(taken);
      await broker.giveBack(next);
      expect(idsOf(await broker.take([queue], 5))).toEqual([waiting.id]);
    },
  );

  it('emits hints again by itself', async () => {
    const server = await own(['--appendonly', 'yes']);
    const broker = await open(server.url);
    const queue = unique('queue');
    const hinted = gate();
    await broker.take([queue], 1);
    const undo = broker.onReady([queue], () => hinted.open());
    onTestFinished(undo);
    await server.stop('SIGKILL');
    await server.start();
    const other = await open(server.url);
    const message = makeEnvelope({ queue });
    await publishAtLast(other, message);
    await hinted.opened;
    expect(idsOf(await until(() => broker.take([queue], 1).catch(() => null)))).toEqual([
      message.id,
    ]);
  });

  it('has all that it confirmed when it is killed during a publish', async () => {
    const server = await own(['--appendonly', 'yes']);
    const broker = await open(server.url);
    const queue = unique('queue');
    const confirmed: string[] = [];
    let isKilled = false;
    while (!isKilled) {
      const messages = makeEnvelopes(20, { queue });
      const publishing = broker.publish(messages);
      // In the middle of a call: some of its messages may be there, and none may be reported as confirmed wrongly.
      if (confirmed.length >= 400) {
        isKilled = true;
        await server.stop('SIGKILL');
      }
      for (const [index, { status }] of (await publishing).entries()) {
        if (status === 'confirmed') confirmed.push(messages[index]?.id ?? '');
      }
    }
    await server.start();
    const found = new Set<string>();
    for (;;) {
      const taken = await until(() => broker.take([queue], 100).catch(() => null));
      if (taken.length === 0) break;
      for (const id of idsOf(taken)) found.add(id);
      await broker.ack(taken);
    }
    expect(confirmed.filter(id => !found.has(id))).toEqual([]);
    expect(confirmed.length).toBeGreaterThanOrEqual(400);
  });
});

describe('a Redis that is loading its data', () => {
  it('keeps what it confirms, and does nothing later that it did not confirm', async () => {
    const server = await own(['--appendonly', 'yes', '--key-load-delay', '1500']);
    const broker = await open(server.url);
    const queue = unique('queue');
    await withRedis(server.url, async redis => {
      const fill = `for n = 1, 2000 do redis.call('SET', KEYS[1] .. n, n) end`;
      await redis.command('eval', fill, 1, 'filler');
    });
    await server.stop();
    const started = server.start();
    await until(async () => (await ping(server.port)).startsWith('-LOADING'));
    const early = makeEnvelope({ queue });
    const [outcome] = await broker.publish([early]);
    await started;
    const late = makeEnvelope({ queue });
    await publishAtLast(broker, late);
    const expected = outcome?.status === 'confirmed' ? [early.id, late.id] : [late.id];
    expect(idsOf(await broker.take([queue], 50))).toEqual(expected);
  });
});

describe('a Redis whose memory is full', () => {
  it('accepts no more messages, reports why, and can be drained', async () => {
    const server = await own(['--maxmemory', '3mb', '--maxmemory-policy', 'noeviction']);
    const broker = await open(server.url);
    const queue = unique('queue');
    const published: string[] = [];
    const ballast = new TextEncoder().encode(`["${'x'.repeat(20_000)}"]`);
    const full = await until(async () => {
      const message = makeEnvelope({ queue, args: ballast });
      const [outcome] = await broker.publish([message]);
      if (outcome?.status === 'confirmed') published.push(message.id);
      return outcome?.status !== 'confirmed' && outcome;
    });
    expect(full).toMatchObject({
      status: 'unavailable',
      error: expect.stringContaining('OOM') as string,
    });
    const [first, second] = [await broker.take([queue], 10), await broker.take([queue], 5)];
    await broker.giveBack(second);
    await broker.ack(first);
    const rest: string[] = idsOf(first);
    while (rest.length < published.length) {
      const taken = await broker.take([queue], 50);
      rest.push(...idsOf(taken));
      await broker.ack(taken);
    }
    expect(rest).toEqual(published);
    await publishAtLast(broker, makeEnvelope({ queue }));
  });
});

describe('a Redis that becomes a replica', () => {
  it('is unavailable until it is a primary again', async () => {
    const [server, other] = [await own(), await own()];
    const broker = await open(server.url);
    const message = makeEnvelope();
    await publishAtLast(broker, message);
    const tell = (...words: readonly (string | number)[]): Promise<unknown> =>
      withRedis(server.url, redis => redis.command('replicaof', ...words));
    await tell('127.0.0.1', other.port);
    expect(await broker.publish([message])).toMatchObject([
      { status: 'unavailable', error: expect.stringContaining('READONLY') as string },
    ]);
    await expect(until(() => broker.take([message.queue], 1))).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
    });
    await tell('no', 'one');
    await publishAtLast(broker, message);
  });
});

describe('sentinels', () => {
  it('announce the new primary, which has the waiting and held messages', async () => {
    const primary = await own(['--appendonly', 'yes']);
    const replica = await own(['--replicaof', `127.0.0.1 ${primary.port}`]);
    const sentinel = await own(sentinelArgs(primary));
    const url = `sentinel://127.0.0.1:${sentinel.port}/shop/0`;
    const { broker } = await openTestBroker(url);
    onTestFinished(() => broker.close());
    const queue = unique('queue');
    const [held, waiting, later] = makeEnvelopes(3, { queue }) as [Envelope, Envelope, Envelope];
    await broker.publish([held, waiting]);
    const taken = await broker.take([queue], 1);
    await withRedis(primary.url, redis =>
      until(async () => {
        // Both: the replica has all data, and the sentinel knows the replica.
        const copies = await redis.command('wait', 1, 0);
        const known = await withRedis(`redis://127.0.0.1:${sentinel.port}`, watcher =>
          watcher.command('sentinel', 'replicas', 'shop'),
        );
        return copies === 1 && (known as readonly unknown[]).length === 1;
      }),
    );
    await primary.stop('SIGKILL');
    await publishAtLast(broker, later);
    const role = await withRedis(replica.url, redis => redis.command('role'));
    expect(String((role as readonly unknown[])[0])).toBe('master');
    // The sentinel announces the change again, and a connection that has already switched is opened anew.
    const isAcked = await broker.ack(taken).then(
      () => true,
      () => false,
    );
    const found = new Set<string>();
    await until(async () => {
      for (const id of idsOf(await broker.take([queue], 5).catch(() => []))) found.add(id);
      return found.has(waiting.id) && found.has(later.id);
    });
    expect(isAcked && found.has(held.id)).toBe(false);
    const { heldPrefix } = queueKeys(queue, false);
    const count = await withRedis(replica.url, redis =>
      redis.command('hlen', heldPrefix + broker.consumer),
    );
    expect(isAcked ? [2] : [2, 3]).toContain(count);
  });

  /** A sentinel keeps its state in its configuration file, so it needs one. */
  function sentinelArgs(primary: OwnRedis): string[] {
    const file = join(primary.folder, 'sentinel.conf');
    const lines = [
      'bind 127.0.0.1',
      `sentinel monitor shop 127.0.0.1 ${primary.port} 1`,
      'sentinel down-after-milliseconds shop 500',
      'sentinel failover-timeout shop 5000',
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    return [file, '--sentinel'];
  }
});

/** The first slot of the cluster's second node. */
const SECOND_NODE = 5_461;

/** A queue in one of the 5,461 slots from this one on, which belong to one node. */
async function queueIn(connection: RedisConnection, from: number): Promise<string> {
  for (;;) {
    const queue = unique('queue');
    const slot = Number(await connection.command('cluster', 'keyslot', queue));
    if (slot >= from && slot < from + SECOND_NODE) return queue;
  }
}

describe('a cluster', () => {
  it('continues without one of its nodes, and uses it again when it returns', async () => {
    const cluster = await startRedisCluster(['--appendonly', 'yes']);
    onTestFinished(() => cluster.dispose());
    const { broker } = await openTestBroker(cluster.url);
    onTestFinished(() => broker.close());
    const messages = makeEnvelopes(30);
    expect(new Set(statuses(await broker.publish(messages)))).toEqual(new Set(['confirmed']));
    await cluster.nodes[1]?.stop('SIGKILL');
    const outcomes = statuses(await broker.publish(messages));
    expect(new Set(outcomes)).toEqual(new Set(['confirmed', 'unavailable']));
    await cluster.nodes[1]?.start();
    for (const message of messages) await publishAtLast(broker, message);
    const queues = messages.map(({ queue }) => queue);
    const taken = await broker.take(queues, 1_000);
    expect(new Set(idsOf(taken))).toEqual(new Set(ids(messages)));
  });

  it('gives what it has although another node is silent, and keeps its lease there', async () => {
    const cluster = await startRedisCluster();
    onTestFinished(() => cluster.dispose());
    // Shorter than the driver waits for the silent node.
    const { broker, connection } = await openTestBroker(cluster.url, 5_000);
    const { broker: other } = await openTestBroker(cluster.url);
    onTestFinished(async () => {
      cluster.nodes[1]?.signal('SIGCONT');
      await Promise.all([broker.close(), other.close()]);
    });
    const [awake, asleep] = [await queueIn(connection, 0), await queueIn(connection, SECOND_NODE)];
    const [first, second] = [makeEnvelope({ queue: awake }), makeEnvelope({ queue: asleep })];
    expect(statuses(await broker.publish([first, second]))).toEqual(['confirmed', 'confirmed']);
    const hidden = await broker.take([asleep], 1);
    // A connection that is made while a node is silent waits for that node.
    await other.take([unique('queue')], 1);
    cluster.nodes[1]?.signal('SIGSTOP');
    const took = async (): Promise<readonly [Delivery[], number]> => {
      const startedAt = performance.now();
      const some = await broker.take([awake, asleep], 10);
      return [[...some], performance.now() - startedAt];
    };
    const [taken, waitedMs] = await took();
    expect(idsOf(taken)).toEqual([first.id]);
    expect(broker.silentMs([asleep])).toBeGreaterThan(5_000);
    // More than a lease has passed while the renewal of the silent queue waited.
    expect(await other.take([awake], 10)).toEqual([]);
    // It is left alone for a while, so that the other one is not held up again.
    await broker.publish([makeEnvelope({ queue: awake })]);
    const [next, shorterMs] = await took();
    expect(next).toHaveLength(1);
    expect(shorterMs).toBeLessThan(waitedMs / 2);
    await broker.ack(taken);
    cluster.nodes[1]?.signal('SIGCONT');
    await until(() =>
      broker.ack(hidden).then(
        () => true,
        () => false,
      ),
    );
  });

  it('emits hints for queues on all of its nodes', async () => {
    const cluster = await startRedisCluster();
    onTestFinished(() => cluster.dispose());
    const broker = await open(cluster.url);
    const queues = Array.from({ length: 6 }, () => unique('queue'));
    let hinted = gate();
    onTestFinished(broker.onReady(queues, () => hinted.open()));
    // The client closes connections while it discovers the cluster: the consumer asks again, as a worker does.
    const take = (): Promise<readonly Delivery[]> =>
      until(() =>
        broker.take(queues, 5).catch((error: unknown) => {
          if (isUnavailable(error)) return false;
          throw error;
        }),
      );
    for (const queue of queues) {
      expect(await take()).toEqual([]);
      await publishAtLast(broker, makeEnvelope({ queue }));
      await hinted.opened;
      hinted = gate();
      await broker.ack(await take());
    }
  });
});
