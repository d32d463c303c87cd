import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast, startWorker, task, unchecked, type Outlast } from '../../dist/index.js';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import type { EnvelopeOptions } from '../../src/task/envelope.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { GOOD, HOSTILE, type HostileMessage } from './corpus/messages.ts';

/** Below the largest message of the corpus; all others fit. */
const MAX_MESSAGE_BYTES = 2_000_000;

let database: MigratedDatabase;
let rabbit: RabbitInspector;

beforeAll(async () => {
  database = await migratedDatabase('inbound');
  rabbit = await RabbitInspector.connect();
});
afterAll(async () => {
  await rabbit.close();
  await database.dispose();
});

/** A broker as seen by a client that may publish to it. */
interface Entrance {
  readonly url: string;
  put(queue: string, messages: readonly HostileMessage[]): Promise<void>;
  /** Unacknowledged messages. */
  left(queue: string): Promise<number>;
  /** The longest value that the ledger stores for it: nothing of a too large message is among them. */
  longest(): Promise<number>;
}

function onRabbit(): Promise<Entrance> {
  return Promise.resolve({
    url: rabbitmqUrl(),
    put: async (queue, messages) => {
      await rabbit.with(async channel => {
        await channel.assertQueue(queue);
        for (const { headers, body, ...rest } of messages) {
          const { contentType = 'application/json', contentEncoding = 'utf-8' } = rest;
          channel.sendToQueue(queue, body, { headers, contentType, contentEncoding });
        }
      });
    },
    // Held messages come back when their consumer is gone; the worker is stopped by then.
    left: async queue => (await rabbit.depth(queue)) ?? -1,
    longest: async () => {
      const text = 'select max(length(body) + length(options)) as longest from outlast_task';
      const { rows } = await database.pool.query<{ longest: number }>(text);
      return rows[0]?.longest ?? -1;
    },
  });
}

async function onRedis(): Promise<Entrance> {
  const server = await startRedis();
  const redis = await RedisConnection.open({ url: server.url, role: 'broker', name: 'test' });
  onTestFinished(async () => {
    redis.close();
    await server.dispose();
  });
  const count = async (command: string, key: string): Promise<number> =>
    Number(await redis.command(command, key));
  return {
    url: server.url,
    put: async (queue, messages) => {
      for (const message of messages)
        await redis.command('lpush', queue, JSON.stringify(elementOf(queue, message)));
    },
    left: async queue => {
      const held = (await redis.command('keys', `*${queue}*held*`)) as readonly Buffer[];
      const counts = await Promise.all(held.map(key => count('hlen', String(key))));
      return (await count('llen', queue)) + counts.reduce((sum, one) => sum + one, 0);
    },
    longest: () => longestOf(redis),
  };
}

function elementOf(queue: string, message: HostileMessage): object {
  return {
    body: message.body.toString('base64'),
    'content-encoding': message.contentEncoding ?? 'utf-8',
    'content-type': message.contentType ?? 'application/json',
    headers: message.headers,
    properties: {
      correlation_id: 'x',
      delivery_mode: 2,
      delivery_info: { exchange: '', routing_key: queue },
      priority: 0,
      body_encoding: 'base64',
      delivery_tag: unique('tag'),
    },
  };
}

/** A worker on the broker, the labels of the tasks it ran, and a function to stop it. */
async function serve(broker: string, name: string, queue: string) {
  const outlast = createOutlast({
    database: database.url,
    broker,
    maxMessageBytes: MAX_MESSAGE_BYTES,
    worker: { concurrency: 20 },
  });
  const ran: string[] = [];
  const contract = task(name, {
    queue,
    args: unchecked<unknown[]>(),
    kwargs: unchecked<Record<string, unknown>>(),
  });
  const handler = outlast.handler(contract, (_, ctx) => void ran.push(ctx.headers['label'] ?? ''));
  const worker = await startWorker(outlast, { tasks: [handler], queues: [queue] });
  let isStopped = false;
  const stop = async (): Promise<void> => {
    if (!isStopped) await worker.stop();
    isStopped = true;
  };
  onTestFinished(async () => {
    await stop();
    await outlast.close();
  });
  return { outlast, ran, stop };
}

/** The reason for each message that did not run, by its label. */
async function lettersOf(outlast: Outlast): Promise<ReadonlyMap<string, DeadLetterDetails>> {
  const admin = createAdmin(outlast);
  const { items } = await admin.deadLetters.list({ limit: 500 });
  const letters = await Promise.all(items.map(({ id }) => admin.deadLetters.show(id)));
  return new Map(
    letters.flatMap(letter => {
      const options = JSON.parse(Buffer.from(letter?.options ?? []).toString()) as EnvelopeOptions;
      const label = options.headers?.['label'];
      return letter && label !== undefined ? [[label, letter] as const] : [];
    }),
  );
}

describe.each([
  ['RabbitMQ', onRabbit],
  ['Redis', onRedis],
] as const)('hostile messages on %s', (_, enter) => {
  it('each end as expected, reach nothing else, and the messages after them run', async () => {
    const entrance = await enter();
    const [queue, name] = [unique('hostile'), unique('hostile.task')];
    const cases = Object.entries(HOSTILE).map(
      ([label, make]) => [label, make(name, unique('id'))] as const,
    );
    const { outlast, ran, stop } = await serve(entrance.url, name, queue);
    const labelled = cases.map(([label, { message }]) => ({
      ...message,
      headers: { label, ...message.headers },
    }));
    const last = { headers: { label: 'last', task: name, id: unique('last') }, body: GOOD };
    await entrance.put(queue, [...labelled, last]);

    const expected = Object.fromEntries(cases.map(([label, { fate }]) => [label, fate]));
    const isRun = (fate: string): boolean => fate === 'runs' || fate === 'waits';
    const deaths = Object.values(expected).filter(fate => !isRun(fate)).length;
    await until(async () => ran.includes('last') && (await lettersOf(outlast)).size >= deaths);
    const letters = await lettersOf(outlast);
    const fates = await Promise.all(
      cases.map(async ([label, { message }]) => {
        const id = String(message.headers['id']);
        const isWaiting = async (): Promise<boolean> =>
          (await createAdmin(outlast).tasks.inspect(id))?.state === 'waiting';
        if (ran.includes(label)) return [label, 'runs'];
        return [label, letters.get(label)?.reason ?? ((await isWaiting()) ? 'waits' : 'lost')];
      }),
    );
    expect(Object.fromEntries(fates)).toEqual(expected);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();

    for (const [label, { message, fate }] of cases) {
      if (fate !== 'ERR_MESSAGE_TOO_LARGE') continue;
      const letter = letters.get(label);
      expect(letter?.body.length, label).toBe(4_096);
      const { cut } = JSON.parse(Buffer.from(letter?.options ?? []).toString()) as EnvelopeOptions;
      expect(cut).toEqual({ bytes: message.body.length, sha256: hash('sha256', message.body) });
      expect(await createAdmin(outlast).deadLetters.retry(letter?.id ?? '')).toBe('incomplete');
    }
    await stop();
    expect(await entrance.left(queue)).toBe(0);
    expect(await entrance.longest()).toBeLessThan(1_200_000);
  });
});

async function longestOf(redis: RedisConnection): Promise<number> {
  const keys = ((await redis.command('keys', '*')) as readonly Buffer[]).map(String);
  const lengths = await Promise.all(
    keys.map(async key => {
      const type = String(await redis.command('type', key));
      return type === 'string' ? Number(await redis.command('strlen', key)) : 0;
    }),
  );
  return Math.max(0, ...lengths);
}
