import { hostname } from 'node:os';
import amqp from 'amqplib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { unique } from '../conformance/envelopes.ts';
import {
  createOutlast,
  startWorker,
  task,
  unchecked,
  type OutlastConfig,
} from '../../dist/index.js';

/** Workers of this process, by their node names. */
const NODES = ['', '-2', '-3'].map(nth => `outlast-${process.pid}${nth}@${hostname()}`);

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('control');
});
afterAll(() => database.dispose());

/** A worker, and a client that may publish to its broker. */
async function setup(config: OutlastConfig) {
  const [own, foreign] = [unique('own'), unique('other-team')];
  const outlast = createOutlast({ database: database.url, broker: rabbitmqUrl(), ...config });
  const echo = task(unique('echo'), { queue: own, result: unchecked<number>() });
  const worker = await startWorker(outlast, {
    tasks: [outlast.handler(echo, () => 1)],
    queues: [own],
    idleTime: '100ms',
  });
  const model = await amqp.connect(rabbitmqUrl());
  const channel = await model.createConfirmChannel();
  onTestFinished(async () => {
    await channel.deleteQueue(foreign);
    await model.close();
    await worker.stop();
    await outlast.close();
  });
  await channel.assertQueue(foreign, { durable: true });
  channel.sendToQueue(foreign, Buffer.from('{"order":1}'), { contentType: 'application/json' });
  const { queue: replies } = await channel.assertQueue('', { exclusive: true, autoDelete: true });
  const heard: Readonly<Record<string, unknown>>[] = [];
  await channel.assertExchange('reply.celery.pidbox', 'direct', { durable: false });
  await channel.bindQueue(replies, 'reply.celery.pidbox', replies);
  await channel.consume(replies, message => {
    heard.push(JSON.parse(String(message?.content)) as Readonly<Record<string, unknown>>);
  });
  /** Until the worker answers: a request that comes before it listens is lost. */
  const ask = async (method: string, given: object = {}): Promise<unknown> => {
    heard.length = 0;
    return await until(async () => {
      const request = {
        method,
        arguments: given,
        // Other tests share the broker: only workers of this process are addressed.
        destination: NODES,
        ticket: unique('ticket'),
        reply_to: { exchange: 'reply.celery.pidbox', routing_key: replies },
      };
      const body = Buffer.from(JSON.stringify(request));
      channel.publish('celery.pidbox', '', body, { contentType: 'application/json' });
      await channel.waitForConfirms();
      for (let look = 0; look < 20 && heard.length === 0; look++)
        await new Promise(resolve => setTimeout(resolve, 20));
      return heard.flatMap(answers => Object.values(answers)).find(answer => answer !== null);
    });
  };
  return {
    ask,
    left: async () => (await channel.checkQueue(foreign)).messageCount,
    runs: async () => await (await outlast.push(echo)).result(),
    foreign,
  };
}

describe('a control request by a client that may publish to the broker', () => {
  it('does not move the queue of another team into our dead letters', async () => {
    const { ask, left, foreign, runs } = await setup({});
    expect(await ask('add_consumer', { queue: foreign })).toEqual({
      error: expect.stringMatching(`names ${foreign}`) as string,
    });
    expect(await runs()).toBe(1);
    expect(await left()).toBe(1);
  });

  it('is refused with an error where tasks are signed; queries are answered', async () => {
    const { ask, runs } = await setup({ signingKeys: [`k:${'ab'.repeat(32)}`] });
    expect(await ask('shutdown')).toEqual({
      error: expect.stringMatching('shutdown is refused') as string,
    });
    expect(await ask('ping')).toEqual({ ok: 'pong' });
    expect(await runs()).toBe(1);
  });
});
