import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openRedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { queueKeys } from '../../src/adapters/redis/redis-keys.ts';
import type { Broker, Delivery, UndecodableMessage } from '../../src/broker/broker.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { ids, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { gate, until } from '../support/database.ts';
import { endLease, openTestBroker, type TestBroker } from '../support/redis-broker.ts';
import { redisUrl } from '../support/servers.ts';
import { startProxy } from '../support/reply-proxy.ts';

let redis: RedisConnection;
beforeAll(async () => {
  redis = await RedisConnection.open({ url: redisUrl(), role: 'broker', name: 'test' });
});
afterAll(() => redis.close());

async function open(url = redisUrl()): Promise<TestBroker> {
  const opened = await openTestBroker(url);
  onTestFinished(() => opened.broker.close());
  return opened;
}

const list = async (key: string): Promise<string[]> =>
  ((await redis.command('lrange', key, 0, -1)) as readonly Buffer[]).map(String);
const heldBy = async (queue: string, consumer: string): Promise<number> =>
  (await redis.command('hlen', queueKeys(queue, false).heldPrefix + consumer)) as number;
const idsOf = (deliveries: readonly Delivery[]): string[] =>
  ids(deliveries.map(({ message }) => message as Envelope));

interface RedisVector {
  readonly name: string;
  readonly commands: readonly (readonly string[])[];
}

/** What real Celery pushed: case, key and element. */
function celeryPushes(file: string): { name: string; key: string; element: string }[] {
  const url = new URL(`../vectors/celery/${file}`, import.meta.url);
  const { vectors } = JSON.parse(readFileSync(url, 'utf8')) as { vectors: RedisVector[] };
  return vectors.flatMap(({ name, commands }) =>
    commands
      .filter(([verb]) => verb === 'LPUSH')
      .map(([, key = '', element = '']) => ({ name, key, element })),
  );
}

describe('messages in a list', () => {
  it('go to the lists that kombu has for their priorities, without one to the one that is read first', async () => {
    const { broker } = await open();
    const queue = unique('queue');
    const given = [9, 7, 6, 4, 3, 1].map(priority => makeEnvelope({ queue, priority }));
    await broker.publish([...given, makeEnvelope({ queue })]);
    const priorities = await Promise.all(
      [queue, `${queue}\x06\x163`, `${queue}\x06\x166`, `${queue}\x06\x169`].map(async key =>
        (await list(key)).map(
          element =>
            (JSON.parse(element) as { properties: { priority: number } }).properties.priority,
        ),
      ),
    );
    expect(priorities).toEqual([[0, 1], [3, 4], [6, 7], [9]]);
  });

  it('look like those of kombu, and declare the queue as Celery does', async () => {
    const { broker } = await open();
    const message = makeEnvelope();
    await broker.publish([message]);
    const element = JSON.parse((await list(message.queue))[0] ?? '') as Record<string, unknown>;
    expect(element).toMatchObject({
      'content-encoding': 'utf-8',
      'content-type': 'application/json',
      body: Buffer.from(message.body).toString('base64'),
      headers: { task: message.name, id: message.id, lang: 'js' },
      properties: {
        correlation_id: message.id,
        delivery_mode: 2,
        delivery_info: { exchange: '', routing_key: message.queue },
        body_encoding: 'base64',
        delivery_tag: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      },
    });
    const bindings = await until(async () => {
      const members = await redis.command('smembers', `_kombu.binding.${message.queue}`);
      return (members as readonly Buffer[]).length > 0 && (members as readonly Buffer[]);
    });
    expect(bindings.map(String)).toEqual([`${message.queue}\x06\x16\x06\x16${message.queue}`]);
  });

  it.each(['publish-redis.json', 'publish-redis-5.6.json'])(
    'of a real Celery are read, or refused with a reason: %s',
    async file => {
      const { broker } = await open();
      const read = new Map<string, Envelope | UndecodableMessage>();
      for (const { name, key, element } of celeryPushes(file)) {
        const queue = unique('queue');
        const [, step = ''] = key.split('\x06\x16');
        await redis.command('lpush', queue + (step === '' ? '' : `\x06\x16${step}`), element);
        const [delivery, ...others] = await broker.take([queue], 5);
        expect(others).toEqual([]);
        if (delivery === undefined) throw new Error(`${name} was not taken`);
        read.set(name, delivery.message);
        await broker.ack([delivery]);
      }
      const unreadable = [...read].filter(([, message]) => 'raw' in message);
      expect(unreadable.map(([name]) => name).sort()).toEqual(
        UNREADABLE.filter(name => read.has(name)),
      );
      for (const [name, priority] of [
        ['plain', 0],
        ['priority-3', 3],
        ['priority-255', 9],
      ] as const) {
        if (read.has(name)) expect(read.get(name)).toMatchObject({ name: 'interop.add', priority });
      }
      expect(read.size).toBeGreaterThan(20);
    },
  );

  const UNREADABLE = ['compression-bzip2', 'protocol-1', 'serializer-pickle', 'serializer-yaml'];

  it('that cannot be read are delivered with their bytes, and are deleted when acknowledged', async () => {
    const { broker } = await open();
    const queue = unique('queue');
    const elements = [
      Buffer.from([0, 255, 1]),
      Buffer.from('{"body"'),
      Buffer.from('[1]'),
      Buffer.from('{"body":"&&&","properties":{"body_encoding":"base64"}}'),
      Buffer.from('{"body":1}'),
    ];
    for (const element of elements) await redis.command('lpush', queue, element);
    const taken = await broker.take([queue], 10);
    const messages = taken.map(({ message }) => message as UndecodableMessage);
    expect(messages.map(({ raw }) => Buffer.from(raw))).toEqual(elements);
    expect(messages.every(({ why }) => why !== '')).toBe(true);
    await broker.ack(taken);
    expect(await broker.take([queue], 10)).toEqual([]);
  });
});

describe('publishing', () => {
  it('answers for a thousand messages of several queues, in their order', async () => {
    const { broker } = await open();
    const [first, second] = [unique('queue'), unique('queue')];
    const messages = Array.from({ length: 1_200 }, (_, n) =>
      makeEnvelope({ queue: n % 3 === 0 ? second : first }),
    );
    const outcomes = await broker.publish(messages);
    expect(outcomes).toHaveLength(messages.length);
    expect(outcomes.every(({ status }) => status === 'confirmed')).toBe(true);
    const taken: string[] = [];
    while (taken.length < 800) taken.push(...idsOf(await broker.take([first], 500)));
    expect(taken).toEqual(ids(messages.filter(({ queue }) => queue === first)));
  });

  it('refuses only the messages whose queue name is used by another kind of key', async () => {
    const { broker } = await open();
    const [bad, good] = [makeEnvelope(), makeEnvelope()];
    await redis.command('set', bad.queue, 'not a list');
    expect(await broker.publish([bad, good])).toEqual([
      { status: 'refused', error: expect.stringContaining('WRONGTYPE') as string },
      { status: 'confirmed' },
    ]);
    // It does not stop the other queues either.
    expect(idsOf(await broker.take([bad.queue, good.queue], 5))).toEqual([good.id]);
  });

  it('follows an exchange by key or by pattern, and is refused where no queue is bound', async () => {
    const { broker } = await open();
    const [exchange, one, two] = [unique('exchange'), unique('queue'), unique('queue')];
    const key = `_kombu.binding.${exchange}`;
    await redis.command('sadd', key, `order.paid\x06\x16\x06\x16${one}`);
    await redis.command('sadd', key, `order.*\x06\x16^order\\..*?[^\\.]$\x06\x16${two}`);
    const send = (routingKey: string): Envelope => {
      const options = new TextEncoder().encode(JSON.stringify({ exchange, routingKey }));
      return makeEnvelope({ options });
    };
    const [paid, made, lost] = [send('order.paid'), send('order.made'), send('refund')];
    expect(await broker.publish([paid, made, lost])).toEqual([
      { status: 'confirmed' },
      { status: 'confirmed' },
      { status: 'refused', error: expect.stringContaining('no queue is bound') as string },
    ]);
    expect(idsOf(await broker.take([one], 5))).toEqual([paid.id]);
    expect(idsOf(await broker.take([two], 5))).toEqual([paid.id, made.id]);
  });

  it('reports the broker as unavailable when it cannot be reached, and does not reject', async () => {
    const proxy = await startProxy(Number(new URL(redisUrl()).port));
    onTestFinished(() => proxy.close());
    proxy.cut();
    const { broker } = await open(`redis://127.0.0.1:${proxy.port}/0`);
    expect(await broker.publish(makeEnvelopes(2))).toMatchObject([
      { status: 'unavailable' },
      { status: 'unavailable' },
    ]);
  });
});

describe('taking', () => {
  it('takes from the queues in their order, the highest priority first in each', async () => {
    const { broker } = await open();
    const [first, second] = [unique('queue'), unique('queue')];
    const messages = [
      makeEnvelope({ queue: second }),
      makeEnvelope({ queue: first, priority: 9 }),
      makeEnvelope({ queue: first }),
    ];
    await broker.publish(messages);
    expect(idsOf(await broker.take([first, second], 5))).toEqual(
      [2, 1, 0].map(place => messages[place]?.id),
    );
  });

  it('leaves nothing in Redis when all is acknowledged and its lease is over', async () => {
    const { broker } = await open();
    const queue = unique('queue');
    await broker.publish(makeEnvelopes(3, { queue }));
    await broker.ack(await broker.take([queue], 3));
    await endLease(redisUrl(), broker.consumer);
    await broker.take([queue], 1);
    const keys = (await redis.command('keys', `*${queue}*`)) as readonly Buffer[];
    expect(keys.map(String).filter(key => !key.startsWith('_kombu.'))).toEqual([]);
  });

  it('deletes the lease of a dead consumer when all its messages are back in their lists', async () => {
    const [dead, other] = [await open(), await open()];
    const message = makeEnvelope();
    await dead.broker.publish([message]);
    await dead.broker.take([message.queue], 1);
    dead.connection.close();
    await endLease(redisUrl(), dead.broker.consumer);
    await other.broker.ack(await other.broker.take([message.queue], 1));
    const { leases } = queueKeys(message.queue, false);
    expect(await redis.command('zscore', leases, dead.broker.consumer)).toBeNull();
  });

  it('gives back the messages it took when the reply was lost', async () => {
    const proxy = await startProxy(Number(new URL(redisUrl()).port));
    onTestFinished(() => proxy.close());
    const { broker, hold } = await open(`redis://127.0.0.1:${proxy.port}/0`);
    const message = makeEnvelope();
    await broker.publish([message]);
    proxy.muteReplies();
    const lost = broker.take([message.queue], 1).catch((error: unknown) => error);
    await until(async () => (await heldBy(message.queue, broker.consumer)) === 1);
    proxy.heal();
    expect(await lost).toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
    await until(async () => {
      await hold.beat();
      return (await heldBy(message.queue, broker.consumer)) === 0;
    });
    expect(idsOf(await (await open()).broker.take([message.queue], 1))).toEqual([message.id]);
  });

  it('redelivers messages that it could not acknowledge', async () => {
    const proxy = await startProxy(Number(new URL(redisUrl()).port));
    onTestFinished(() => proxy.close());
    const { broker, hold } = await open(`redis://127.0.0.1:${proxy.port}/0`);
    const message = makeEnvelope();
    await broker.publish([message]);
    const taken = await broker.take([message.queue], 1);
    proxy.cut();
    const away = { code: 'ERR_BROKER_UNAVAILABLE' };
    await expect(broker.ack(taken)).rejects.toMatchObject(away);
    await expect(broker.take([message.queue], 1)).rejects.toMatchObject(away);
    // What a probe sees: no reply since the first of them, until one comes.
    const deafMs = broker.silentMs([message.queue]) ?? 0;
    proxy.heal();
    await until(async () => {
      await hold.beat();
      return (await heldBy(message.queue, broker.consumer)) === 0;
    });
    expect(broker.silentMs([message.queue])).toBeGreaterThan(deafMs);
    expect(idsOf(await broker.take([message.queue], 1))).toEqual([message.id]);
    expect(broker.silentMs([message.queue])).toBeLessThan(deafMs);
  });

  it('keeps the messages of a living consumer, and returns those of a dead one, by leases alone', async () => {
    const message = makeEnvelope();
    const [dying, living] = [await open(), await open()];
    const shortLived = await openTestBroker(redisUrl(), 100);
    await dying.broker.publish([message, message]);
    const [kept] = await living.broker.take([message.queue], 1);
    await shortLived.broker.take([message.queue], 1);
    shortLived.connection.close();
    const taker = await open();
    const [back] = await until(async () => {
      const taken = await taker.broker.take([message.queue], 5);
      return taken.length > 0 && taken;
    });
    expect(back?.message).toMatchObject({ id: message.id });
    expect(await heldBy(message.queue, living.broker.consumer)).toBe(1);
    expect(kept?.tag).not.toBe(back?.tag);
  });

  it('renews its lease by itself as long as it holds messages', async () => {
    const opened = await openTestBroker(redisUrl(), 2_000);
    onTestFinished(() => opened.broker.close());
    const message = makeEnvelope();
    await opened.broker.publish([message]);
    await opened.broker.take([message.queue], 1);
    const { leases } = queueKeys(message.queue, false);
    const score = async (): Promise<number> =>
      Number(await redis.command('zscore', leases, opened.broker.consumer));
    const first = await score();
    await until(async () => (await score()) > first);
    await until(async () => (await score()) > first + 500);
  });

  it('ignores the acknowledgements of a consumer that slept too long', async () => {
    const [sleeper, other] = [await open(), await open()];
    const message = makeEnvelope();
    await sleeper.broker.publish([message]);
    const stale = await sleeper.broker.take([message.queue], 1);
    await endLease(redisUrl(), sleeper.broker.consumer);
    const taken = await other.broker.take([message.queue], 1);
    expect(idsOf(taken)).toEqual([message.id]);
    await sleeper.broker.ack(stale);
    await sleeper.broker.giveBack(stale);
    expect(await list(queueKeys(message.queue, false).lists[3] ?? '')).toEqual([]);
    expect(await heldBy(message.queue, other.broker.consumer)).toBe(1);
    await sleeper.hold.beat();
    expect(await heldBy(message.queue, other.broker.consumer)).toBe(1);
  });

  it('gives everything back when it is closed', async () => {
    const [first, second] = [await open(), await open()];
    const messages = makeEnvelopes(2, { queue: unique('queue') });
    await first.broker.publish(messages);
    const queue = messages[0]?.queue ?? '';
    await first.broker.take([queue], 5);
    await first.broker.close();
    expect(idsOf(await second.broker.take([queue], 5))).toEqual(ids(messages));
  });

  it('loses nothing to SCRIPT FLUSH', async () => {
    const { broker } = await open();
    const message = makeEnvelope();
    await redis.command('script', 'flush');
    await broker.publish([message]);
    await redis.command('script', 'flush');
    const taken = await broker.take([message.queue], 1);
    await redis.command('script', 'flush');
    await broker.giveBack(taken);
    expect(idsOf(await broker.take([message.queue], 1))).toEqual([message.id]);
  });
});

describe('hints', () => {
  const hintsOf = (broker: Broker, queues: readonly string[]): (() => Promise<void>) => {
    let hinted = gate();
    const undo = broker.onReady(queues, () => hinted.open());
    onTestFinished(undo);
    return async () => {
      await hinted.opened;
      hinted = gate();
    };
  };

  it.each([1, 5])('come for every list of %i queues, and take nothing', async count => {
    const { broker } = await open();
    const queues = Array.from({ length: count }, () => unique('queue'));
    const nextHint = hintsOf(broker, queues);
    for (const priority of [0, 3, 5, 9]) {
      expect(await broker.take(queues, 5)).toEqual([]);
      const message = makeEnvelope({ queue: queues.at(-1) ?? '', priority });
      await broker.publish([message]);
      await nextHint();
      const taken = await broker.take(queues, 5);
      expect(idsOf(taken)).toEqual([message.id]);
      await broker.ack(taken);
    }
  });

  it('come for messages that waited before the listener was added', async () => {
    const { broker } = await open();
    const message = makeEnvelope();
    await broker.publish([message]);
    await hintsOf(broker, [message.queue])();
  });

  it('come again after every connection was killed', async () => {
    const broker = await openRedisBroker(redisUrl());
    onTestFinished(() => broker.close());
    const queue = unique('queue');
    const nextHint = hintsOf(broker, [queue]);
    expect(await broker.take([queue], 1)).toEqual([]);
    const clients = String(await redis.command('client', 'list'));
    const ours = clients.split('\n').filter(line => line.includes(`name=outlast-${process.pid} `));
    expect(ours.length).toBeGreaterThan(1);
    for (const line of ours) {
      const id = /^id=(\d+)/.exec(line)?.[1] ?? '';
      await redis.command('client', 'kill', 'id', id);
    }
    const message = makeEnvelope({ queue });
    await until(async () => (await broker.publish([message]))[0]?.status === 'confirmed');
    await nextHint();
    expect(idsOf(await broker.take([queue], 1))).toEqual([message.id]);
  });
});
