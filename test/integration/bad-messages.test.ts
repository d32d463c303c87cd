import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { handlerOf, startFleetWorker } from '../interop/fleet-kit.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

/** A message as a foreign program may write it. */
interface Raw {
  readonly headers: object;
  readonly body: Buffer;
  readonly contentType?: string;
}

let database: MigratedDatabase;
let rabbit: RabbitInspector;
let redis: RedisConnection;

beforeAll(async () => {
  database = await migratedDatabase('badmessages');
  rabbit = await RabbitInspector.connect();
  redis = await RedisConnection.open({ url: redisUrl(), role: 'broker', name: 'test' });
});
afterAll(async () => {
  redis.close();
  await rabbit.close();
  await database.dispose();
});

async function putOnRabbit(queue: string, messages: readonly Raw[]): Promise<void> {
  await rabbit.with(async channel => {
    await channel.assertQueue(queue);
    for (const { headers, body, contentType = 'application/json' } of messages)
      channel.sendToQueue(queue, body, { headers, contentType, contentEncoding: 'utf-8' });
  });
}

async function putOnRedis(queue: string, messages: readonly Raw[]): Promise<void> {
  for (const { headers, body, contentType = 'application/json' } of messages) {
    const element = {
      body: body.toString('base64'),
      'content-encoding': 'utf-8',
      'content-type': contentType,
      headers,
      properties: {
        correlation_id: 'x',
        delivery_mode: 2,
        delivery_info: { exchange: '', routing_key: queue },
        priority: 0,
        body_encoding: 'base64',
        delivery_tag: unique('tag'),
      },
    };
    await redis.command('lpush', queue, JSON.stringify(element));
  }
}

const json = (text: string): Buffer => Buffer.from(text);
const GOOD = json('[[], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]');
/** Would exist if the pickle were ever unpickled. */
const TRACE = join(tmpdir(), unique('pickle').replace(/\W/g, '-'));
const PICKLE = Buffer.from(`cos\nsystem\n(S'touch ${TRACE}'\ntR.`);

/** Each with the reason for its death. */
const CASES: Readonly<
  Record<string, { readonly raw: (name: string, id: string) => Raw; readonly reason: string }>
> = {
  'bytes that are no text': {
    raw: (task, id) => ({ headers: { task, id }, body: Buffer.from([0x5b, 0xff, 0xfe, 0x5d]) }),
    reason: 'ERR_UNDECODABLE',
  },
  'a body that is no list': {
    raw: (task, id) => ({ headers: { task, id }, body: json('{"args": []}') }),
    reason: 'ERR_UNDECODABLE',
  },
  'a body that ends too soon': {
    raw: (task, id) => ({ headers: { task, id }, body: json('[[1], {') }),
    reason: 'ERR_UNDECODABLE',
  },
  'another content type': {
    raw: (task, id) => ({ headers: { task, id }, body: GOOD, contentType: 'application/x-yaml' }),
    reason: 'ERR_UNDECODABLE',
  },
  'a pickle': {
    raw: (task, id) => ({
      headers: { task, id },
      body: PICKLE,
      contentType: 'application/x-python-serialize',
    }),
    reason: 'ERR_UNDECODABLE',
  },
  'no id': { raw: task => ({ headers: { task }, body: GOOD }), reason: 'ERR_UNDECODABLE' },
  'a digest of other bytes': {
    raw: (task, id) => ({
      headers: { lang: 'js', task, id, 'outlast-digest': 'a'.repeat(64) },
      body: GOOD,
    }),
    reason: 'ERR_DIGEST',
  },
  // Deeper than the reader accepts, in a form that amqplib still sends.
  'gigantic headers': {
    raw: (task, id) => ({ headers: { task, id, huge: Array(20_000).fill(true) }, body: GOOD }),
    reason: 'ERR_UNDECODABLE',
  },
  'protocol 1': {
    raw: (task, id) => ({
      headers: {},
      body: json(JSON.stringify({ task, id, args: [], kwargs: {} })),
    }),
    reason: 'ERR_UNDECODABLE',
  },
  'a header called __proto__': {
    raw: (task, id) => ({
      headers: JSON.parse(
        `{"task": "${task}", "id": "${id}", "headers": {"__proto__": {"x": "y"}}}`,
      ) as object,
      body: GOOD,
    }),
    reason: 'ERR_UNDECODABLE',
  },
};

describe.each([
  ['RabbitMQ', rabbitmqUrl, putOnRabbit],
  ['Redis', redisUrl, putOnRedis],
] as const)('messages that cannot be run, on %s', (_, urlOf, put) => {
  it('become dead letters with their bytes and the reason, and the messages after them run', async () => {
    const [queue, name] = [unique('bad'), unique('bad.task')];
    const seen: unknown[] = [];
    const { stores } = await startFleetWorker({
      database: database.url,
      broker: urlOf(),
      handlers: [handlerOf(name, queue, (args, { id }) => seen.push([id, ...args]))],
    });
    const raws = Object.values(CASES).map(({ raw }) => raw(name, unique('id')));
    const last = unique('last');
    // A key of the arguments called __proto__ is an ordinary key: it changes no object here.
    const strange = json('[[{"__proto__": {"polluted": true}}], {}, {}]');
    await put(queue, [...raws, { headers: { task: name, id: last }, body: strange }]);
    await until(async () => seen.length > 0);
    expect(seen).toEqual([[last, expect.anything() as unknown]]);
    expect(JSON.stringify(seen)).toContain('"__proto__":{"polluted":true}');
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect((seen as [[string, { polluted?: boolean }]])[0][1].polluted).toBeUndefined();
    expect(existsSync(TRACE)).toBe(false);
    const rows = await until(async () => {
      const page = { limit: 100, cursor: null, order: 'newest', taskName: null } as const;
      const { items } = await stores.ledgerReads.listDead(page);
      const found = items.filter(item => item.queue === queue);
      return found.length >= raws.length && found;
    });
    const shown = await Promise.all(rows.map(({ id }) => stores.ledgerReads.showDead(id)));
    const letters = (items: readonly (readonly [string, Buffer])[]): readonly string[] =>
      items.map(([reason, body]) => `${reason} ${body.toString('hex')}`).toSorted();
    const expected = Object.values(CASES).map(
      ({ reason }, index) => [reason, raws[index]?.body ?? Buffer.alloc(0)] as const,
    );
    const found = shown.map(
      letter => [letter?.reason ?? '', Buffer.from(letter?.body ?? [])] as const,
    );
    expect(letters(found)).toEqual(letters(expected));
  });
});
