import { randomUUID } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Broker } from '../../src/broker/broker.ts';
import { unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { openTestBroker } from '../support/redis-broker.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';
import { pythonMessage, rabbitIntruder, redisIntruder, type Intruder } from './intruder.ts';

const MESSAGES = 12;
const MOST_BYTES = 32 * 2 ** 20;
const plain = pythonMessage('some', 'one', { args: ['x'.repeat(12 * 2 ** 20)] });
/** Kilobytes, and twelve megabytes when they are inflated. */
const body = deflateSync(plain.body);

interface Opened {
  readonly broker: Broker;
  readonly intruder: Intruder;
}

async function onRabbit(queue: string): Promise<Opened> {
  const inspector = await RabbitInspector.connect();
  const broker = rabbitBroker(rabbitmqUrl(), { prefetch: MESSAGES });
  const intruder = await rabbitIntruder();
  onTestFinished(async () => {
    await broker.close();
    await inspector.delete(queue);
    await inspector.close();
    await intruder.close();
  });
  await inspector.with(channel => channel.assertQueue(queue));
  return { broker, intruder };
}

async function onRedis(): Promise<Opened> {
  const { broker } = await openTestBroker(redisUrl());
  const intruder = await redisIntruder();
  onTestFinished(async () => {
    await broker.close();
    await intruder.close();
  });
  return { broker, intruder };
}

describe.each([
  ['RabbitMQ', onRabbit],
  ['Redis', onRedis],
])('small messages on %s that are large when inflated', (_, open) => {
  it('are delivered in batches that fit into memory, and all of them in the end', async () => {
    const queue = unique('inflated');
    const { broker, intruder } = await open(queue);
    for (let n = 0; n < MESSAGES; n++) {
      const { headers, properties } = pythonMessage('some', randomUUID());
      const compressed = { ...headers, compression: 'application/x-gzip' };
      await intruder.put(queue, { headers: compressed, properties, body });
    }
    const takes: number[] = [];
    const ids = new Set<string>();
    await until(async () => {
      const taken = await broker.take([queue], MESSAGES);
      const messages = taken.map(({ message }) => message);
      takes.push(messages.reduce((sum, one) => sum + ('body' in one ? one.body.length : 0), 0));
      for (const one of messages) if ('id' in one) ids.add(one.id);
      await broker.ack(taken);
      return ids.size === MESSAGES;
    });
    expect(Math.max(...takes)).toBeLessThanOrEqual(MOST_BYTES);
    expect(Math.max(...takes)).toBeGreaterThan(12 * 2 ** 20);
  });
});
