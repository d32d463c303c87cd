import * as v from 'valibot';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import { createOutlast, startResurrector, startWorker, task, unchecked } from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

/** A separate database: the resurrector below buries tasks without a handler after a second. */
const ownRedis = (): string => redisUrl().replace(/\/\d+$/, '/11');

/** In the input of every message below; no reader may find it. */
const SECRET = 'MARKER';

interface Raw {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

let database: MigratedDatabase;
let rabbit: RabbitInspector;
let redis: RedisConnection;
beforeAll(async () => {
  database = await migratedDatabase('redaction');
  rabbit = await RabbitInspector.connect();
  redis = await RedisConnection.open({ url: ownRedis(), role: 'broker', name: 'test' });
});
afterAll(async () => {
  redis.close();
  await rabbit.close();
  await database.dispose();
});

async function putOnRabbit(queue: string, messages: readonly Raw[]): Promise<void> {
  await rabbit.with(async channel => {
    await channel.assertQueue(queue);
    const as = { contentType: 'application/json', contentEncoding: 'utf-8' };
    for (const { headers, body } of messages) channel.sendToQueue(queue, body, { headers, ...as });
  });
}

async function putOnRedis(queue: string, messages: readonly Raw[]): Promise<void> {
  for (const { headers, body } of messages) {
    const element = {
      body: body.toString('base64'),
      'content-encoding': 'utf-8',
      'content-type': 'application/json',
      headers,
      properties: {
        delivery_info: { exchange: '', routing_key: queue },
        body_encoding: 'base64',
        delivery_tag: unique('tag'),
      },
    };
    await redis.command('lpush', queue, JSON.stringify(element));
  }
}

/** As Python sends it: without redacted copies, and with a description of the arguments in the headers. */
const python = (name: string, kwargs: object, id = unique('py')): Raw => ({
  headers: { lang: 'py', task: name, id, kwargsrepr: JSON.stringify(kwargs) },
  body: Buffer.from(JSON.stringify([[], kwargs, {}])),
});

const input = v.object({ email: v.pipe(v.string(), v.email()) });
const card = { card: `${SECRET}-1` };

/** Every way to become a dead letter, with its reason. */
function casesOf(queue: string) {
  const once = { retry: { maxAttempts: 1 } };
  const strict = task(unique('strict'), { queue, input });
  const boom = task(unique('boom'), { queue, input: unchecked() });
  const parsing = task(unique('parsing'), { queue, input: unchecked() });
  const answering = task(unique('answering'), { queue, result: v.picklist(['ok']) });
  const old = task(unique('old'), { queue, input: unchecked(), version: 2 });
  const outlast = createOutlast({ database: database.url });
  const handlers = [
    outlast.handler(strict, () => undefined),
    outlast.handler(boom, {
      ...once,
      run: () => {
        throw new RangeError('declined');
      },
    }),
    outlast.handler(parsing, { ...once, run: () => void v.parse(input, { email: SECRET }) }),
    outlast.handler(answering, { ...once, run: () => SECRET as 'ok' }),
    outlast.handler(old, {
      migrations: {
        1: given => {
          throw new Error(`cannot read ${JSON.stringify(given)}`);
        },
      },
      run: () => undefined,
    }),
  ];
  const bad = (text: string): Raw => ({ ...python(boom.name, card), body: Buffer.from(text) });
  const cases: readonly (readonly [reason: string, raw: Raw])[] = [
    ['ERR_TASK_UNKNOWN', python('nobody.knows', card)],
    ['ERR_ATTEMPTS_SPENT', python(boom.name, card)],
    ['ERR_INPUT_INVALID', python(strict.name, { email: SECRET })],
    ['ERR_ATTEMPTS_SPENT', python(parsing.name, {})],
    ['ERR_ATTEMPTS_SPENT', python(answering.name, {})],
    ['ERR_MIGRATION_FAILED', python(old.name, card)],
    ['ERR_UNDECODABLE', bad(`{"card":"${SECRET}"}`)],
    ['ERR_UNDECODABLE', bad(`[[],{"card": ${SECRET}},null]`)],
    ['ERR_UNDECODABLE', bad(`["${SECRET}",{},null]`)],
  ];
  return { outlast, handlers, cases };
}

/** Runs the cases with or without a redactor, and returns all that operators see of them. */
async function seen(
  broker: string,
  put: typeof putOnRedis,
  isRedacted: boolean,
): Promise<{ readonly letters: readonly DeadLetterDetails[]; readonly text: string }> {
  const queue = unique('redaction');
  const { outlast: maker, handlers, cases } = casesOf(queue);
  let logged = '';
  const note = (fields: object, message: string): void => {
    const plain = (_: string, value: unknown): unknown =>
      value instanceof Error ? [value.message, value.stack] : value;
    logged += `${message} ${JSON.stringify(fields, plain)}\n`;
  };
  const log = { debug: note, info: note, warn: note, error: note, child: () => log };
  const redact = () => ({ args: [], kwargs: { shown: 'redacted' } });
  const parts = { database: database.url, broker };
  const outlast = createOutlast({ ...parts, log, ...(isRedacted ? { redact } : {}) });
  // The reader may have no redactor: what is stored must be redacted already.
  const looking = createOutlast(parts);
  const worker = await startWorker(outlast, {
    tasks: handlers,
    queues: [queue],
    celeryControl: 'off',
  });
  const resurrector = await startResurrector(outlast, { unknownTaskTimeout: '1s' });
  try {
    await put(
      queue,
      cases.map(([, raw]) => raw),
    );
    const { deadLetters } = createAdmin(looking);
    const own = await until(async () => {
      const { items } = await deadLetters.list({ limit: 1_000 });
      const found = items.filter(item => item.queue === queue);
      return found.length === cases.length && found;
    });
    const letters = await Promise.all(own.map(({ id }) => until(() => deadLetters.show(id))));
    const reasons = letters.map(({ reason }) => reason);
    expect(reasons.toSorted()).toEqual(cases.map(([reason]) => reason).toSorted());
    const texts = letters.map(letter => {
      const { body, options, ...rest } = letter;
      return [Buffer.from(body), Buffer.from(options), JSON.stringify(rest)].join('\n');
    });
    const metas = await Promise.all(
      cases.map(([, { headers }]) =>
        redis.command('get', `celery-task-meta-${String(headers['id'])}`),
      ),
    );
    return { letters, text: [...texts, ...metas.map(String), logged].join('\n') };
  } finally {
    await Promise.all([worker.stop(), resurrector.stop()]);
    await Promise.all([outlast.close(), looking.close(), maker.close()]);
  }
}

describe.each([
  ['RabbitMQ, and the ledger in PostgreSQL', rabbitmqUrl, putOnRabbit],
  ['Redis', ownRedis, putOnRedis],
] as const)('messages without redacted copies, on %s', (_, urlOf, put) => {
  it('are redacted before they are stored, and no schema or parser quotes them', async () => {
    const { letters, text } = await seen(urlOf(), put, true);
    expect(text).not.toContain(SECRET);
    expect(letters.every(({ isRedacted }) => isRedacted)).toBe(true);
    const bodies = letters.map(({ body }) => Buffer.from(body).toString());
    expect(bodies.filter(body => body.includes('"shown":"redacted"')).length).toBe(6);
    // The path of the error stays, and so does the error text of a handler.
    const errors = letters.map(({ error }) => error).join('\n');
    expect(errors).toContain('a schema refused the value at `email`; what it said is hidden');
    expect(errors).toContain('declined');
  });

  it('are shown as they are where no redactor is configured', async () => {
    const { letters, text } = await seen(urlOf(), put, false);
    expect(letters.some(({ isRedacted }) => isRedacted)).toBe(false);
    for (const quote of [/but received \W+MARKER/, /Received \W+MARKER/, /MARKER-1/])
      expect(text).toMatch(quote);
  });
});

describe('a dead letter that was stored without redacted copies', () => {
  it('is redacted for a reader with a redactor', async () => {
    const queue = unique('bare');
    const name = unique('bare.task');
    const bare = createOutlast({ database: database.url });
    const redacting = createOutlast({
      database: database.url,
      redact: () => ({ args: ['<r>'], kwargs: {} }),
    });
    const contract = task(name, { queue, input: unchecked<object>() });
    const other = task(unique('bare.other'), { queue });
    const worker = await startWorker(bare, {
      tasks: [
        bare.handler(contract, {
          retry: { maxAttempts: 1 },
          run: () => {
            throw new Error('no');
          },
        }),
        bare.handler(other, () => undefined),
      ],
      queues: [queue],
    });
    try {
      const { id } = await bare.push(contract, card);
      const letter = await until(() => createAdmin(redacting).deadLetters.show(id));
      expect(Buffer.from(letter.body).toString()).toMatch(/^\[\["<r>"\],\{\},/);
      expect(letter.isRedacted).toBe(true);
      expect(JSON.stringify(letter)).not.toContain(SECRET);
    } finally {
      await worker.stop();
      await Promise.all([bare.close(), redacting.close()]);
    }
  });
});
