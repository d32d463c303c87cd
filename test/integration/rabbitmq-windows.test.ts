import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import amqp, { type Channel, type ChannelModel } from 'amqplib';
import type { PushedQueue, PushWindow, QueueDemand } from '../../src/broker/demand.ts';
import { makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const FIRST = 2;

let model: ChannelModel;
let channel: Channel;

beforeAll(async () => {
  model = await amqp.connect(rabbitmqUrl());
  channel = await model.createChannel();
});

afterAll(async () => {
  await model.close();
});

/** A queue whose windows the test decides about. */
async function setup() {
  const proxy = await TcpProxy.to(rabbitmqUrl());
  onTestFinished(() => proxy.close());
  const broker = rabbitBroker(proxy.url(rabbitmqUrl()));
  onTestFinished(() => broker.close());
  const name = unique('windows');
  const reported = { arrived: 0, acknowledged: 0, ranShort: 0, changed: 0, foundEmpty: 0 };
  const demand: QueueDemand = {
    first: FIRST,
    mostPulled: 3,
    arrived: () => void (reported.arrived += 1),
    acknowledged: count => void (reported.acknowledged += count),
    ranShort: () => void (reported.ranShort += 1),
    changed: () => void (reported.changed += 1),
    foundEmpty: () => void (reported.foundEmpty += 1),
  };
  const joined: PushedQueue[] = [];
  broker.pushWithin({
    join: queue => {
      joined.push(queue);
      return demand;
    },
  });
  const send = async (count: number, bytes = 0): Promise<void> => {
    const body = bytes > 0 ? { body: Buffer.alloc(bytes, ' ') } : {};
    const messages = makeEnvelopes(count, { queue: name });
    await broker.publish(messages.map(message => ({ ...message, ...body })));
  };
  await broker.take([name], 0);
  const queue = joined[0] as PushedQueue;
  await until(async () => queue.isConsuming);
  const take = (limit: number) => broker.take([name], limit);
  const waiting = async (): Promise<number> => (await channel.checkQueue(name)).messageCount;
  const consumers = async (): Promise<number> => (await channel.checkQueue(name)).consumerCount;
  const opened = (size: number): PushWindow => {
    const window = queue.open(size);
    if (window === null) throw new Error('the window could not be opened');
    return window;
  };
  return { broker, proxy, name, queue, reported, send, take, waiting, consumers, opened };
}

describe('a queue of RabbitMQ', () => {
  it('reports unacknowledged and untaken messages, and their bytes', async () => {
    const { broker, queue, reported, send, take } = await setup();
    await send(FIRST, 100_000);
    await until(async () => queue.atHand === FIRST);
    expect(queue.unacknowledged).toBe(FIRST);
    expect(queue.bytesAtHand).toBeGreaterThanOrEqual(FIRST * 100_000);
    expect(queue.messageBytes).toBeGreaterThanOrEqual(100_000);
    expect(queue.waitedMs).toBeGreaterThan(0);
    expect(reported).toMatchObject({ arrived: 1, ranShort: 0 });
    const taken = await take(FIRST + 1);
    expect([queue.atHand, queue.unacknowledged, queue.bytesAtHand]).toEqual([0, FIRST, 0]);
    expect([queue.waitedMs, reported.ranShort]).toEqual([0, 1]);
    await broker.ack(taken);
    expect([queue.unacknowledged, reported.acknowledged]).toEqual([0, FIRST]);
  });

  it('opens and shuts windows on demand', async () => {
    const { broker, queue, reported, send, take, waiting, opened } = await setup();
    await send(12);
    await until(async () => queue.atHand === FIRST);
    const [kept, returned] = [opened(3), opened(4)];
    await until(async () => queue.atHand === FIRST + 3 + 4);
    expect([kept.held, returned.held]).toEqual([3, 4]);
    const before = reported.changed;
    await queue.shut([returned], true);
    expect([returned.state, returned.held, queue.atHand]).toEqual(['shut', 0, FIRST + 3]);
    expect(reported.changed).toBeGreaterThan(before);
    await until(async () => (await waiting()) === 12 - FIRST - 3);
    // What came through this one stays, and counts until it is answered.
    await queue.shut([kept], false);
    expect([kept.state, kept.held, queue.atHand]).toEqual(['shut', 3, FIRST + 3]);
    await broker.ack(await take(FIRST + 3));
    expect(kept.held).toBe(0);
    await until(async () => queue.atHand === FIRST);
  });

  it('shuts a window that is still being opened', async () => {
    const { queue, consumers, opened } = await setup();
    const window = opened(3);
    await queue.shut([window], false);
    expect(window.state).toBe('shutting');
    await until(async () => window.state === 'shut' && (await consumers()) === 1);
  });

  it('is pulled from while it is paused, and reports when it is empty', async () => {
    const { queue, reported, send, take, consumers, opened } = await setup();
    opened(3);
    await send(FIRST + 3);
    await until(async () => queue.atHand === FIRST + 3);
    await queue.pause();
    expect([queue.isPulling, queue.atHand, queue.open(1)]).toEqual([true, 0, null]);
    await until(async () => (await consumers()) === 0);
    // No more than may be pulled at once.
    expect(await until(async () => (await take(5)).length)).toBe(3);
    const rest = await until(async () => (await take(5)).length);
    expect(rest).toBe(FIRST);
    expect(reported.foundEmpty).toBeGreaterThan(0);
    queue.resume();
    await until(async () => (await consumers()) === 1);
    expect([queue.isPulling, queue.isConsuming]).toEqual([false, true]);
  });

  it('has no windows and no messages after its channel is lost', async () => {
    const { queue, proxy, reported, send, opened } = await setup();
    const window = opened(3);
    await send(FIRST + 3);
    await until(async () => window.held > 0);
    const before = reported.changed;
    proxy.cut();
    await until(async () => window.state === 'shut');
    expect([window.held, reported.changed > before]).toEqual([0, true]);
    // And it begins again with the first alone.
    await until(async () => queue.isConsuming && queue.unacknowledged === FIRST);
  });
});
