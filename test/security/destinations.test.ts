import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { bindingKey, ownBinding } from '../../src/adapters/redis/redis-keys.ts';
import { unreadQueues } from '../../src/adapters/redis/redis-purge.ts';
import { Destinations } from '../../src/ledger/destinations.ts';
import { toBytes } from '../../src/task/json.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { handlerOf, startFleetWorker, startRecovery } from '../interop/fleet-kit.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

let database: MigratedDatabase;
let rabbit: RabbitInspector;
let redis: RedisConnection;

beforeAll(async () => {
  database = await migratedDatabase('destinations');
  rabbit = await RabbitInspector.connect();
  redis = await RedisConnection.open({ url: redisUrl(), role: 'broker', name: 'test' });
});
afterAll(async () => {
  redis.close();
  await rabbit.close();
  await database.dispose();
});

/** Rows of the ledger. */
async function sql(text: string, values: readonly unknown[]): Promise<readonly SqlRow[]> {
  return (await database.pool.query<SqlRow>(text, [...values])).rows;
}

type SqlRow = Record<string, unknown>;

const link = (options: object): object => ({ task: 'anything', args: [1], options });
const bodyOf = (links: readonly object[]): Buffer =>
  Buffer.from(
    JSON.stringify([[], {}, { callbacks: links, errbacks: null, chain: null, chord: null }]),
  );

/** A worker of its own queue, and a resurrector, with what a sender may do to them. */
async function setup(broker: string) {
  const queue = unique('victim');
  const name = unique('task');
  const handlers = [handlerOf(name, queue, () => 'done')];
  const { stores } = await startFleetWorker({ database: database.url, broker, handlers });
  await startRecovery({ database: database.url, broker });
  const { ledgerReads } = stores;
  const state = async (id: string): Promise<string | null> =>
    (await ledgerReads.inspect(id))?.state ?? null;
  /** Reasons of dead letters that follow this task, by queue. */
  const letters = async (parent: string): Promise<readonly string[]> => {
    const page = { limit: 100, cursor: null, order: 'newest', taskName: null } as const;
    const { items } = await ledgerReads.listDead(page);
    const shown = await Promise.all(items.map(({ id }) => ledgerReads.showDead(id)));
    const ours = shown.filter(letter =>
      Buffer.from(letter?.options ?? []).includes(`"parentId":"${parent}"`),
    );
    return ours.map(letter => `${letter?.queue} ${letter?.reason}`).toSorted();
  };
  return { queue, name, state, letters };
}

describe('on RabbitMQ', () => {
  /** As a user who may write only to this queue. */
  const put = async (
    queue: string,
    name: string,
    links: readonly object[],
    replyTo?: string,
  ): Promise<string> => {
    const id = randomUUID();
    await rabbit.with(async channel => {
      await channel.assertQueue(queue);
      channel.sendToQueue(queue, bodyOf(links), {
        headers: { id, task: name, lang: 'py', argsrepr: '()', kwargsrepr: '{}' },
        contentType: 'application/json',
        contentEncoding: 'utf-8',
        correlationId: 'forged',
        ...(replyTo === undefined ? {} : { replyTo }),
      });
    });
    return id;
  };

  it('a message reaches no foreign exchange or queue, and its task is still done', async () => {
    const { queue, name, state, letters } = await setup(rabbitmqUrl());
    const [events, inbox, rpc] = [unique('events'), unique('inbox'), unique('rpc')];
    await rabbit.with(async channel => {
      await channel.assertExchange(events, 'topic');
      await channel.assertQueue(inbox);
      await channel.bindQueue(inbox, events, '#');
      await channel.assertQueue(rpc);
    });
    const links = [
      link({ exchange: events, routing_key: 'pay' }),
      link({ exchange: events, routing_key: events, queue: events }),
      link({ exchange: 'celery.pidbox', routing_key: '' }),
    ];
    const id = await put(queue, name, links, rpc);
    await until(async () => (await letters(id)).length === 3);
    const reason = `${queue} ERR_DESTINATION_REFUSED`;
    expect((await letters(id)).toSorted()).toEqual(
      [reason, reason, `${events} ERR_DESTINATION_REFUSED`].toSorted(),
    );
    expect(await state(id)).toBe('done');
    expect([await rabbit.depth(inbox), await rabbit.depth(rpc)]).toEqual([0, 0]);
    await rabbit.with(async channel => {
      await channel.deleteQueue(inbox);
      await channel.deleteQueue(rpc);
      await channel.deleteExchange(events);
    });
  });

  it('a message declares no queue, and sends to no queue that no worker has declared', async () => {
    const { queue, name, state } = await setup(rabbitmqUrl());
    const [foreign, ofCelery] = [unique('foreign'), unique('celery')];
    await rabbit.with(async channel => {
      await channel.assertQueue(foreign);
      await channel.assertQueue(ofCelery);
      await channel.assertExchange(ofCelery, 'direct');
    });
    const missing = Array.from({ length: 20 }, () => unique('flood'));
    const links = [foreign, ...missing, ofCelery].map(to => link({ queue: to }));
    const id = await put(queue, name, links);
    // A copy may follow where the first confirm was late.
    await until(async () => ((await rabbit.depth(ofCelery)) ?? 0) >= 1);
    await until(async () => {
      const rows = await sql(
        'select count(*) as n from outlast_after where key like $1 and attempts > 0',
        [`${id}/%`],
      );
      return Number(rows[0]?.['n']) === 21;
    });
    expect(await state(id)).toBe('done');
    expect(await rabbit.depth(foreign)).toBe(0);
    expect(await Promise.all(missing.map(to => rabbit.depth(to)))).toEqual(missing.map(() => null));
    await sql('delete from outlast_after where key like $1', [`${id}/%`]);
    await rabbit.with(async channel => {
      await channel.deleteQueue(foreign);
      await channel.deleteQueue(ofCelery);
      await channel.deleteExchange(ofCelery);
    });
  });
});

describe('on Redis', () => {
  const put = async (queue: string, name: string, links: readonly object[]): Promise<string> => {
    const id = randomUUID();
    const element = {
      body: bodyOf(links).toString('base64'),
      'content-encoding': 'utf-8',
      'content-type': 'application/json',
      headers: { id, task: name, lang: 'py', argsrepr: '()', kwargsrepr: '{}' },
      properties: {
        correlation_id: id,
        delivery_mode: 2,
        delivery_info: { exchange: '', routing_key: queue },
        priority: 0,
        body_encoding: 'base64',
        delivery_tag: unique('tag'),
      },
    };
    await redis.command('lpush', queue, JSON.stringify(element));
    return id;
  };

  it('a message writes only to declared queues', async () => {
    const { queue, name, state, letters } = await setup(redisUrl());
    const [jobs, config, ofCelery] = [unique('app:jobs'), unique('app:config'), unique('celery')];
    await redis.command('set', config, 'secret');
    await redis.command('lpush', jobs, 'theirs');
    await redis.command('sadd', bindingKey(ofCelery), ownBinding(ofCelery));
    const ours = unique('outlast:ledger:workers');
    const id = await put(queue, name, [
      link({ queue: ours }),
      link({ queue: bindingKey('celery.pidbox') }),
      link({ exchange: 'evil', routing_key: 'rk' }),
      link({ queue: jobs }),
      link({ queue: config }),
      link({ queue: ofCelery }),
    ]);
    await until(async () => (await letters(id)).length === 3);
    await until(async () => Number(await redis.command('llen', ofCelery)) >= 1);
    expect(await state(id)).toBe('done');
    expect(await redis.command('exists', ours)).toBe(0);
    expect(await redis.command('llen', jobs)).toBe(1);
    expect(String(await redis.command('get', config))).toBe('secret');
    for (const key of [jobs, config])
      expect(await redis.command('exists', bindingKey(key))).toBe(0);
    await sql('delete from outlast_after where key like $1', [`${id}/%`]);
    await redis.command('del', jobs, config, ofCelery, bindingKey(ofCelery));
  });

  it('keys that are bound but are not lists do not stop the counting of messages', async () => {
    const [text, set, queue] = [unique('text'), unique('set'), unique('queue')];
    await redis.command('set', text, 'x');
    await redis.command('sadd', bindingKey(text), ownBinding(text));
    await redis.command('set', bindingKey(set), 'no set');
    await redis.command('sadd', bindingKey(queue), ownBinding(queue));
    await redis.command('lpush', queue, 'x');
    const found = (await unreadQueues(redisUrl())).map(one => one.queue);
    expect(found).toContain(queue);
    expect(found).not.toContain(text);
    await redis.command('del', text, queue, ...[text, set, queue].map(bindingKey));
  });
});

describe('the rules', () => {
  const rules = new Destinations({ queues: ['mine'], allowed: ['billing.*', 'exchange:ev*'] });
  const judge = (queue: string, exchange = ''): string =>
    rules.judge(makeEnvelope({ queue, options: toBytes(JSON.stringify({ exchange })) })).kind;

  it.each([
    ['known', 'mine', ''],
    ['known', 'celery', ''],
    ['known', 'billing.eu', ''],
    ['known', 'anything', 'events'],
    ['known', 'anything', 'celery'],
    ['existing', 'theirs', ''],
    ['existing', 'billing', ''],
    ['refused', 'mine', 'other'],
    ['refused', 'outlast:ledger:tasks', ''],
    ['refused', '_kombu.binding.celery', ''],
    ['refused', 'unacked_index', ''],
    ['refused', 'celery@host.celery.pidbox', ''],
    ['refused', 'a\u0006\u00163', ''],
  ])('%s: queue %j, exchange %j', (kind, queue, exchange) => {
    expect(judge(queue, exchange)).toBe(kind);
  });

  it.each([
    ['known', '0191d8c3-6b7a-7c3e-9c49-2f1f6a1b2c3d'],
    ['known', 'amq.gen-JzTY20BRgKO-HjmUJj0wLg'],
    ['known', '4f1e7a0e.reply.celery.pidbox'],
    ['known', 'billing.answers'],
    ['refused', 'mine'],
    ['refused', 'other-team.rpc'],
  ])('%s: an answer at %j', (kind, replyTo) => {
    expect(rules.judgeReply(replyTo).kind).toBe(kind);
  });

  it('match a glob of many stars in linear time', () => {
    const many = new Destinations({ queues: [], allowed: [`${'*a'.repeat(100)}b`] });
    const envelope = makeEnvelope({ queue: 'a'.repeat(255) });
    expect(many.judge(envelope).kind).toBe('existing');
  });
});
