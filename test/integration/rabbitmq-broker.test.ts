import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import amqp, { type Channel, type ChannelModel } from 'amqplib';
import { publishByDriver, publishOn } from '../../src/adapters/rabbitmq/frame-writer.ts';
import type { RabbitBroker } from '../../src/adapters/rabbitmq/rabbitmq-broker.ts';
import type { Broker, Delivery, PublishOutcome } from '../../src/broker/broker.ts';
import type { BrokerOptions } from '../../src/config/broker-target.ts';
import type { Envelope, EnvelopeOptions } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import { encodeMessage } from '../../src/wire/encode-message.ts';
import { makeEnvelope, makeEnvelopes, plainEnvelope, unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let model: ChannelModel;
let channel: Channel;

beforeAll(async () => {
  model = await amqp.connect(rabbitmqUrl());
  channel = await model.createChannel();
});

afterAll(async () => {
  await model.close();
});

function connect(options: Partial<BrokerOptions> = {}): RabbitBroker {
  const broker = rabbitBroker({ url: rabbitmqUrl(), ...options });
  onTestFinished(() => broker.close());
  return broker;
}

const withOptions = (options: EnvelopeOptions, queue = unique('queue')): Envelope =>
  makeEnvelope({ queue, options: toBytes(JSON.stringify(options)) });

const statuses = (outcomes: readonly PublishOutcome[]): string[] =>
  outcomes.map(({ status }) => status);

const takeOne = (broker: Broker, queue: string): Promise<Delivery> =>
  until(async () => (await broker.take([queue], 1))[0]);

describe('a published message', () => {
  it('is refused when it reaches no queue, and the others arrive', async () => {
    const broker = connect();
    const exchange = unique('exchange');
    await channel.assertExchange(exchange, 'direct', { autoDelete: false });
    onTestFinished(async () => void (await channel.deleteExchange(exchange)));
    const lost = withOptions({ exchange, routingKey: 'nowhere' });
    const outcomes = await broker.publish([makeEnvelope(), lost, makeEnvelope()]);
    expect(statuses(outcomes)).toEqual(['confirmed', 'refused', 'confirmed']);
    expect(outcomes[1]).toMatchObject({ error: expect.stringContaining('nowhere') as string });
  });

  it('goes where its sender routes it, and nothing is declared for it', async () => {
    const broker = connect();
    const [exchange, queue, other] = [unique('exchange'), unique('queue'), unique('queue')];
    await channel.assertExchange(exchange, 'topic');
    await channel.assertQueue(queue);
    await channel.bindQueue(queue, exchange, 'order.#');
    const message = withOptions({ exchange, routingKey: 'order.paid' }, other);
    expect(statuses(await broker.publish([message]))).toEqual(['confirmed']);
    const taken = await takeOne(broker, queue);
    expect(taken.message).toMatchObject({ id: message.id, queue });
    await broker.ack([taken]);
    const probe = await model.createChannel();
    probe.on('error', () => undefined);
    await expect(probe.checkQueue(other)).rejects.toThrow('NOT_FOUND');
  });

  it('to a missing exchange is refused, and messages to a queue are not affected', async () => {
    const broker = connect();
    const poison = withOptions({ exchange: unique('missing') });
    const queue = unique('queue');
    const others = makeEnvelopes(200, { queue });
    const outcomes = await broker.publish([...others.slice(0, 100), poison, ...others.slice(100)]);
    expect(outcomes[100]).toMatchObject({
      status: 'refused',
      error: expect.stringContaining('no exchange') as string,
    });
    expect(statuses(outcomes.toSpliced(100, 1))).toEqual(others.map(() => 'confirmed'));
  });

  it('to a missing exchange makes suspects only of messages to other exchanges', async () => {
    const broker = connect();
    const [exchange, queue] = [unique('exchange'), unique('queue')];
    await channel.assertExchange(exchange, 'fanout');
    await channel.assertQueue(queue);
    await channel.bindQueue(queue, exchange, '');
    const poison = withOptions({ exchange: unique('missing') });
    const routed = Array.from({ length: 3 }, () => withOptions({ exchange }));
    const [first, ...others] = await broker.publish([poison, ...routed]);
    expect(first?.status).toBe('suspect');
    // Messages that the server took before it closed the channel are confirmed; all others must not be.
    for (const { status } of others) expect(['suspect', 'confirmed']).toContain(status);
    expect(statuses(await broker.publish(routed))).toEqual(routed.map(() => 'confirmed'));
  });

  it('that cannot be encoded is refused, and the others arrive', async () => {
    const broker = connect();
    const large = withOptions({ headers: { big: 'x'.repeat(30_000) } });
    const longName = withOptions({ headers: { ['n'.repeat(300)]: 'x' } });
    const notJson = makeEnvelope({ options: toBytes('not JSON') });
    const outcomes = await broker.publish([large, longName, notJson, makeEnvelope()]);
    expect(statuses(outcomes)).toEqual(['refused', 'refused', 'refused', 'confirmed']);
  });

  it('larger than a frame arrives unchanged', async () => {
    const broker = connect();
    const args = toBytes(JSON.stringify(['7'.repeat(200_000)]));
    const message = makeEnvelope({ args });
    await broker.publish([message]);
    const taken = await takeOne(broker, message.queue);
    expect(plainEnvelope(taken.message as Envelope)).toEqual(plainEnvelope(message));
    await broker.ack([taken]);
  });

  it('has the same frames whether we write them or amqplib does', async () => {
    const queue = unique('queue');
    await channel.assertQueue(queue);
    const options = { timeoutMs: 300_000, groupIndex: 40_000, headers: { a: 'é' }, replyTo: 'r' };
    const message = encodeMessage(withOptions(options, queue), 'gen1@host');
    const confirming = await model.createConfirmChannel();
    for (const sink of [publishOn(confirming), publishByDriver(confirming)]) {
      sink.add({ ...message, exchange: '', routingKey: queue }, () => undefined);
      expect(sink.flush()).toBe(true);
    }
    await confirming.waitForConfirms();
    const [ours, theirs] = [await channel.get(queue), await channel.get(queue)];
    if (!ours || !theirs) throw new Error('not both have come');
    expect(ours.properties).toEqual(theirs.properties);
    expect(ours.content).toEqual(theirs.content);
    await confirming.close();
  });

  it('is distinguished from another one with the same id', async () => {
    const broker = connect();
    const exchange = unique('exchange');
    await channel.assertExchange(exchange, 'direct');
    const lost = withOptions({ exchange, routingKey: 'nowhere' });
    const same = makeEnvelope({ id: lost.id });
    const queue = unique('queue');
    await channel.assertQueue(queue);
    await channel.bindQueue(queue, exchange, 'here');
    const here = { ...withOptions({ exchange, routingKey: 'here' }), id: lost.id };
    const outcomes = await broker.publish([here, lost, same, lost]);
    expect(statuses(outcomes)).toEqual(['confirmed', 'refused', 'confirmed', 'refused']);
  });

  it('declares its queue again after it was deleted', async () => {
    const broker = connect();
    const queue = unique('queue');
    await broker.publish([makeEnvelope({ queue })]);
    await channel.deleteQueue(queue);
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['refused']);
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['confirmed']);
  });
});

describe('a queue', () => {
  it('is declared as Celery declares it: durable, with an exchange and a binding of its name', async () => {
    const broker = connect();
    const queue = unique('queue');
    await broker.publish([makeEnvelope({ queue })]);
    // The server would close the channel at any difference.
    await channel.assertExchange(queue, 'direct', { durable: true });
    await channel.assertQueue(queue, { durable: true });
    const confirming = await model.createConfirmChannel();
    const returned: unknown[] = [];
    confirming.on('return', message => returned.push(message));
    confirming.publish(queue, queue, Buffer.from('x'), { mandatory: true });
    await confirming.waitForConfirms();
    expect(returned).toEqual([]);
    expect((await channel.checkQueue(queue)).messageCount).toBe(2);
  });

  it('is a quorum queue where that is configured', async () => {
    const queue = unique('queue');
    await connect({ queueType: 'quorum' }).publish([makeEnvelope({ queue })]);
    await channel.assertQueue(queue, {
      durable: true,
      arguments: { 'x-queue-type': 'quorum' },
    });
  });

  it('that exists is used as it is', async () => {
    const queue = unique('queue');
    const shape = { durable: true, maxPriority: 5, arguments: { 'x-max-length': 100 } };
    await channel.assertQueue(queue, shape);
    const broker = connect({ queueType: 'quorum' });
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['confirmed']);
    await broker.ack([await takeOne(broker, queue)]);
  });

  it('that may not be declared refuses its own messages and no others', async () => {
    const broker = connect();
    const outcomes = await broker.publish([makeEnvelope({ queue: 'amq.mine' }), makeEnvelope()]);
    expect(statuses(outcomes)).toEqual(['refused', 'confirmed']);
    expect(outcomes[0]).toMatchObject({ error: expect.stringContaining('amq.mine') as string });
  });

  it('that is deleted under a consumer is declared and consumed again', async () => {
    const broker = connect();
    const queue = unique('queue');
    const first = makeEnvelope({ queue });
    await broker.publish([first]);
    await broker.ack([await takeOne(broker, queue)]);
    await channel.deleteQueue(queue);
    const consumers = async (): Promise<boolean> => {
      const probe = await model.createChannel();
      probe.on('error', () => undefined);
      return (await probe.checkQueue(queue).catch(() => null))?.consumerCount === 1;
    };
    await until(consumers);
    const second = makeEnvelope({ queue });
    await connect().publish([second]);
    expect((await takeOne(broker, queue)).message).toMatchObject({ id: second.id });
  });
});

describe('consuming', () => {
  it('holds at most the prefetch, and emits a hint for new messages', async () => {
    const queue = unique('queue');
    const broker = rabbitBroker(rabbitmqUrl(), { slots: 2 });
    onTestFinished(() => broker.close());
    let hints = 0;
    broker.onReady([queue], () => (hints += 1));
    await broker.take([queue], 1);
    await connect().publish(makeEnvelopes(5, { queue }));
    await until(async () => hints === 2);
    const { messageCount } = await channel.checkQueue(queue);
    expect(messageCount).toBe(3);
    const taken = await broker.take([queue], 5);
    expect(taken).toHaveLength(2);
    await broker.ack(taken);
    await until(async () => hints === 4);
  });

  it('acknowledges exactly the given messages, in any order', async () => {
    const queue = unique('queue');
    const broker = rabbitBroker(rabbitmqUrl(), { slots: 5 });
    const sent = makeEnvelopes(5, { queue });
    await connect().publish(sent);
    const taken: Delivery[] = [];
    await until(async () => taken.push(...(await broker.take([queue], 5))) && taken.length === 5);
    const [first, second, third, , fifth] = taken as [
      Delivery,
      Delivery,
      Delivery,
      Delivery,
      Delivery,
    ];
    await broker.ack([third]);
    await broker.ack([fifth, second, first]);
    await broker.ack([first]);
    await broker.close();
    // A wrong answer would close the channel, and bring back more than this one.
    await until(async () => (await channel.checkQueue(queue)).messageCount === 1);
    const left = await takeOne(connect(), queue);
    expect(left.message).toMatchObject({ id: sent[3]?.id });
  });

  it('opens more consumers while tasks are short, and closes them when their messages are not taken', async () => {
    const queue = unique('queue');
    const broker = rabbitBroker(rabbitmqUrl(), { slots: 2 });
    onTestFinished(() => broker.close());
    await connect().publish(makeEnvelopes(400, { queue }));
    const consumers = async (): Promise<number> => (await channel.checkQueue(queue)).consumerCount;
    let acked = 0;
    await until(async () => {
      const taken = await broker.take([queue], 2);
      await broker.ack(taken);
      acked += taken.length;
      return acked % 20 === 0 && (await consumers()) >= 2;
    });
    await until(async () => (await consumers()) === 1);
    // The first consumer keeps its messages, the rest are available again.
    await until(async () => (await channel.checkQueue(queue)).messageCount >= 400 - acked - 2);
  });

  it('gets pushed messages again as soon as a polled task was short, however slowly it polls', async () => {
    const queue = unique('queue');
    // With so many slots no number of messages that are polled one by one looks like many.
    const broker = rabbitBroker(rabbitmqUrl(), { slots: 10_000 });
    onTestFinished(() => broker.close());
    broker.onReady([queue], () => undefined);
    await broker.publish(makeEnvelopes(3_000, { queue }));
    await broker.giveBack([await takeOne(broker, queue)]);
    const look = async () => await channel.checkQueue(queue);
    await until(async () => (await look()).consumerCount === 0);
    let polled = 0;
    await until(async () => {
      await broker.ack([await takeOne(broker, queue)]);
      polled += 1;
      return (await look()).consumerCount > 0;
    });
    // And not because the queue was empty.
    expect(polled).toBeLessThan(3_000);
  });

  it('gives back untaken messages at once when the last listener has left', async () => {
    const queue = unique('queue');
    const [broker, other] = [connect(), connect()];
    const undo = broker.onReady([queue], () => undefined);
    await other.publish(makeEnvelopes(3, { queue }));
    const taken = await takeOne(broker, queue);
    undo();
    await until(async () => (await channel.checkQueue(queue)).messageCount === 2);
    // Messages that were taken are still held, and can still be acknowledged.
    await broker.ack([taken]);
    expect(await until(async () => (await other.take([queue], 5)).length)).toBeGreaterThan(0);
    // Taking again starts consuming again.
    await other.close();
    expect((await takeOne(broker, queue)).message).toMatchObject({ queue });
  });

  it('pushes no messages of a queue that the worker has left, also when it acknowledges many', async () => {
    const queue = unique('queue');
    const broker = rabbitBroker(rabbitmqUrl(), { slots: 4 });
    onTestFinished(() => broker.close());
    const undo = broker.onReady([queue], () => undefined);
    await connect().publish(makeEnvelopes(20, { queue }));
    const taken: Delivery[] = [];
    await until(async () => taken.push(...(await broker.take([queue], 4))) === 4);
    undo();
    taken.push(...(await broker.take([queue], 4)));
    await broker.ack(taken);
    expect(taken).toHaveLength(8);
    // Still pulled: a queue that is pushed from begins with nothing at hand.
    expect(await broker.take([queue], 1)).toHaveLength(1);
  });

  it('answers every message once, because a second answer would close the channel', async () => {
    const queue = unique('queue');
    const broker = connect();
    await broker.publish(makeEnvelopes(2, { queue }));
    const taken = await takeOne(broker, queue);
    await broker.ack([taken]);
    await broker.ack([taken]);
    await broker.giveBack([taken]);
    const next = await takeOne(broker, queue);
    await broker.ack([next]);
    await until(async () => (await channel.checkQueue(queue)).messageCount === 0);
  });
});

describe('one of several queues', () => {
  const PREFETCH = 16;
  /** Takes without answering until the whole prefetch is used. */
  const fill = async (broker: Broker, queue: string): Promise<readonly Delivery[]> => {
    const held: Delivery[] = [];
    await until(async () => {
      held.push(...(await broker.take([queue], PREFETCH)));
      return held.length >= PREFETCH;
    });
    return held;
  };

  it('that was paused when its channel was lost leaves its share of the prefetch to the others', async () => {
    const proxy = await TcpProxy.to(rabbitmqUrl());
    onTestFinished(() => proxy.close());
    const broker = rabbitBroker(proxy.url(rabbitmqUrl()), { slots: PREFETCH });
    onTestFinished(() => broker.close());
    const [paused, other] = [unique('paused'), unique('other')];
    for (const queue of [paused, other])
      await connect().publish(makeEnvelopes(PREFETCH + 5, { queue }));
    await broker.take([paused, other], 0);
    const leave = broker.onReady([paused], () => undefined);
    await fill(broker, paused);
    leave();
    await until(async () => (await channel.checkQueue(paused)).consumerCount === 0);
    proxy.cut();
    expect((await fill(broker, other)).length).toBeGreaterThanOrEqual(PREFETCH);
  });

  it('that is deleted while tasks are short has the whole prefetch again when it is back', async () => {
    const broker = rabbitBroker(rabbitmqUrl(), { slots: PREFETCH });
    onTestFinished(() => broker.close());
    const [queue, other] = [unique('queue'), unique('other')];
    await broker.take([queue, other], 0);
    await connect().publish(makeEnvelopes(3_000, { queue }));
    // So many at once that a second consumer is open; then nothing is borrowed.
    for (let acked = 0; acked < 3_000;) {
      const taken = await broker.take([queue, other], PREFETCH);
      await broker.ack(taken);
      acked += taken.length;
      await new Promise(setImmediate);
    }
    await until(async () => (await channel.checkQueue(queue)).consumerCount >= 2);
    await channel.deleteQueue(queue);
    const publisher = connect();
    await until(
      async () => statuses(await publisher.publish([makeEnvelope({ queue })]))[0] === 'confirmed',
    );
    await publisher.publish(makeEnvelopes(PREFETCH + 5, { queue }));
    expect((await fill(broker, queue)).length).toBeGreaterThanOrEqual(PREFETCH);
  });
});

describe('a connection', () => {
  it('that is lost makes its messages unavailable, and the next publish opens another', async () => {
    const proxy = await TcpProxy.to(rabbitmqUrl());
    onTestFinished(() => proxy.close());
    const broker = connect({ url: proxy.url(rabbitmqUrl()) });
    const queue = unique('queue');
    await broker.publish([makeEnvelope({ queue })]);
    proxy.silence();
    const waiting = broker.publish(makeEnvelopes(3, { queue }));
    proxy.speak();
    expect(statuses(await waiting)).toEqual(['unavailable', 'unavailable', 'unavailable']);
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['confirmed']);
  });

  it('that becomes silent is detected by heartbeats, by publisher and consumer', async () => {
    const proxy = await TcpProxy.to(rabbitmqUrl());
    onTestFinished(() => proxy.close());
    const troubles: unknown[] = [];
    const url = `${proxy.url(rabbitmqUrl())}?heartbeat=1`;
    const broker = rabbitBroker(url, { onTrouble: error => troubles.push(error) });
    onTestFinished(() => broker.close());
    const queue = unique('queue');
    await broker.publish([makeEnvelope({ queue })]);
    const held = await takeOne(broker, queue);
    proxy.silence();
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['unavailable']);
    await until(async () => troubles.length > 0);
    // What a probe sees: the queue is not consumed, until it is again.
    expect(broker.silentMs([queue])).toBeGreaterThan(0);
    proxy.speak();
    // Both recover by themselves, with a new channel: delivery tags of the old one are void.
    await broker.ack([held]);
    const again = await until(async () => {
      const taken = await broker.take([queue], 5);
      return taken.find(
        ({ message }) => 'id' in message && message.id === (held.message as Envelope).id,
      );
    });
    expect(again.tag).not.toBe(held.tag);
    expect(broker.silentMs([queue])).toBe(0);
    expect(statuses(await broker.publish([makeEnvelope({ queue })]))).toEqual(['confirmed']);
  });

  it('uses the next host when one does not answer', async () => {
    const { host } = new URL(rabbitmqUrl());
    for (const url of [
      rabbitmqUrl().replace(host, `127.0.0.1:1,${host}`),
      `amqp://127.0.0.1:1;${rabbitmqUrl()}`,
    ]) {
      expect(statuses(await connect({ url }).publish([makeEnvelope()]))).toEqual(['confirmed']);
    }
  });

  it.each([
    ['a wrong password', { password: 'wrong' }, 'wrong user or password'],
    ['a missing virtual host', { pathname: '/missing' }, 'refuses virtual host missing'],
    ['a server that is not there', { port: '1' }, 'cannot be reached'],
  ])('is refused for %s, with that reason', async (_, change, said) => {
    const url = Object.assign(new URL(rabbitmqUrl()), change).href;
    const troubles: unknown[] = [];
    const broker = rabbitBroker(url, { onTrouble: error => troubles.push(error) });
    onTestFinished(() => broker.close());
    const [outcome] = await broker.publish([makeEnvelope()]);
    expect(outcome).toMatchObject({
      status: 'unavailable',
      error: expect.stringContaining(said) as string,
    });
    expect(await broker.take([unique('queue')], 1)).toEqual([]);
    await until(async () => troubles.length > 0);
    expect(troubles[0]).toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      scope: 'connection',
      isPermanent: said !== 'cannot be reached',
    });
    expect(JSON.stringify([outcome, String(troubles[0])])).not.toContain(':wrong');
  });
});
