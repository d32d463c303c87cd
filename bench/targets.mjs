// @ts-check
/**
 * The ways a relay can take: into another database, to RabbitMQ, to Redis. Each
 * knows how to run the relay on its outbox, how to see messages arrive, and how to write the same messages without it.
 */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'amqplib';
import { Redis } from 'ioredis';
import { makeDatabase } from './database.mjs';
import { createOutlast, fromPg, runCli, startCli, task, unchecked } from './outlast.mjs';

const RABBITMQ_URL = process.env.OUTLAST_TEST_RABBITMQ_URL ?? '';
const REDIS_URL = process.env.OUTLAST_TEST_REDIS_URL ?? '';

/** Messages that may be on their way at once, here and in the relay. */
export const WINDOW = 1_000;
const RELAY_FLAGS = ['--batch-size', '1000', '--publish-concurrency', String(WINDOW)];
const LOOK_EVERY_MS = 10;

const receipt = task('shop.receipt', { input: unchecked() });
const INPUT = { orderId: '17', customer: 'ada@example.com', total: '99.90' };
const BODY = JSON.stringify([[], INPUT, {}]);

/**
 * @typedef {object} Target
 * @property {string} name
 * @property {string} queue
 * @property {import('./outlast.mjs').Config} config
 * @property {readonly string[]} flags of the relay
 * @property {import('pg').Pool} outbox the database whose outbox is relayed
 * @property {() => Promise<number>} arrived how many messages are there
 * @property {() => Promise<void>} clear forgets them
 * @property {(onMessage: (id: string) => void) => Promise<void>} consume takes messages as they come
 * @property {((count: number) => Promise<void>) | null} publish writes so many messages like the last one that arrived,
 *   confirmed, and with the same window; null where that is what bare claim+delete measures
 * @property {((id: string) => void) | null} put writes one message under this id, without a relay
 * @property {() => Promise<void>} close
 */

/** @type {Readonly<Record<string, () => Promise<Target>>>} */
export const TARGETS = {
  'other database': otherDatabase,
  'RabbitMQ classic': () => rabbitmq('classic'),
  'RabbitMQ quorum': () => rabbitmq('quorum'),
  Redis: redis,
};

const SEED = 1_000;

/**
 * Commits tasks, all at once; when they were. Up to a thousand are sent with the public API and the rest are copies of
 * them: a million sends would take longer than what is measured.
 * @param {Target} target
 * @param {number} count a multiple of a thousand, or less than that
 * @param {string} [missing] an exchange that is not there: one row in a thousand goes to it
 */
export async function commitTasks(target, count, missing) {
  const outlast = createOutlast({ ...target.config, adapter: fromPg(target.outbox) });
  const calls = Array.from({ length: Math.min(count, SEED) }, (_, index) =>
    receipt.with(INPUT, {
      queue: target.queue,
      ...(missing !== undefined && index === SEED / 2 ? { celery: { exchange: missing } } : {}),
    }),
  );
  await outlast.transaction(async tx => {
    await outlast.sendMany(tx, calls);
    if (count > SEED) await copyRows(tx, 'outlast_outbox', count / SEED - 1);
  });
  const committedAt = performance.now();
  await outlast.close();
  return committedAt;
}

/**
 * Copies the rows of the outbox so many times, under new ids.
 * @param {import('pg').PoolClient} client
 * @param {string} into a table like the outbox
 * @param {number} times
 */
export async function copyRows(client, into, times) {
  const { rows } = await client.query(
    `select string_agg(column_name, ', ') as names from information_schema.columns
     where table_name = 'outlast_outbox' and column_name not in ('id', 'task_id')`,
  );
  const { names } = rows[0];
  await client.query(
    `insert into ${into} (task_id, ${names}) select task_id || '-' || n, ${names}
     from outlast_outbox, generate_series(1, $1::int) n`,
    [times],
  );
}

/**
 * Waits until the outbox is empty. While its newest row is there only that is looked for: a look at the whole table
 * walks over all rows that are gone, and was a fifth of what the database did meanwhile.
 * @param {Target} target
 */
export async function untilRelayed({ outbox }) {
  const newest = await outbox.query('select max(id) as id from outlast_outbox');
  const { id } = newest.rows[0];
  for (;;) {
    const { rows } = await outbox.query(
      `select case when exists (select 1 from outlast_outbox where id = $1) then true
         else exists (select 1 from outlast_outbox) end as is_left`,
      [id],
    );
    if (!rows[0].is_left) return performance.now();
    await delay(LOOK_EVERY_MS);
  }
}

/** Starts a relay and waits until it works. @param {Target} target */
export async function startRelay(target) {
  const relay = startCli(['relay', ...RELAY_FLAGS, ...target.flags], target.config);
  await commitTasks(target, 1);
  const failed = relay.ended.then(() => Promise.reject(new Error('the relay has ended')));
  await Promise.race([untilRelayed(target), failed]);
  failed.catch(() => undefined);
  await target.clear();
  return relay;
}

/** A function that sends one task in a transaction of its own; its id, once committed. @param {Target} target */
export function makeSender(target) {
  const outlast = createOutlast({ ...target.config, adapter: fromPg(target.outbox) });
  return async () =>
    (await outlast.transaction(tx => outlast.send(tx, receipt, INPUT, { queue: target.queue }))).id;
}

/**
 * The targets that this version can reach; the others are named, with the reason.
 * @param {(line: string) => void} log
 */
export async function openTargets(log, names = Object.keys(TARGETS)) {
  const targets = [];
  const skipped = [];
  for (const name of names) {
    const target = await /** @type {(typeof TARGETS)[string]} */ (TARGETS[name])();
    try {
      await commitTasks(target, 1);
      await runCli(['relay', '--drain', ...RELAY_FLAGS, ...target.flags], target.config);
      targets.push(target);
    } catch (error) {
      const [reason] = String(error).split('\n');
      log(`${name} is left out: ${reason}`);
      skipped.push(`${name} is left out: ${reason}`);
      await target.close();
    }
  }
  return { targets, skipped };
}

/** @returns {Promise<Target>} */
async function otherDatabase() {
  const main = await makeDatabase('bench_main');
  const separate = await makeDatabase('bench_separate');
  const ledger = ledgerOf(main.pool);
  return {
    name: 'other database',
    queue: 'bench',
    config: { database: main.url, outboxes: { separate: { database: separate.url } } },
    flags: ['--outbox', 'separate'],
    outbox: separate.pool,
    ...ledger,
    close: async () => {
      await ledger.close();
      await separate.pool.end();
    },
  };
}

/** @param {import('pg').Pool} pool */
function ledgerOf(pool) {
  /** @type {import('pg').PoolClient | undefined} */
  let listener;
  return {
    arrived: async () =>
      Number((await pool.query('select count(*) as count from outlast_task')).rows[0].count),
    clear: async () => void (await pool.query('truncate outlast_task')),
    consume: async (/** @type {(id: string) => void} */ onMessage) => {
      const client = await pool.connect();
      listener = client;
      const seen = new Set();
      const look = async () => {
        const { rows } = await pool.query('select id from outlast_task');
        for (const { id } of rows) {
          if (!seen.has(id)) onMessage(id);
          seen.add(id);
        }
      };
      client.on('notification', () => void look());
      await client.query('listen outlast_task');
    },
    publish: null,
    put: null,
    close: async () => {
      listener?.release(true);
      await pool.end();
    },
  };
}

/**
 * @param {'classic' | 'quorum'} queueType
 * @returns {Promise<Target>}
 */
async function rabbitmq(queueType) {
  const { url, pool } = await makeDatabase(`bench_${queueType}`);
  const connection = await connect(RABBITMQ_URL);
  const channel = await connection.createConfirmChannel();
  // Declared by the relay.
  const queue = `bench_${queueType}`;
  return {
    name: `RabbitMQ ${queueType}`,
    queue,
    config: { database: url, broker: { url: RABBITMQ_URL, queueType } },
    flags: [],
    outbox: pool,
    arrived: async () => (await channel.checkQueue(queue)).messageCount,
    clear: async () => void (await channel.purgeQueue(queue)),
    consume: async onMessage =>
      void (await channel.consume(
        queue,
        message => message !== null && onMessage(String(message.properties.headers?.['id'])),
        { noAck: true },
      )),
    publish: async count => {
      const like = await channel.get(queue, { noAck: true });
      if (like === false) throw new Error('no message to publish the like of');
      await publishAll(channel, like, count);
    },
    put: id =>
      void channel.publish('', queue, Buffer.from(BODY), {
        persistent: true,
        mandatory: true,
        headers: { id },
      }),
    close: async () => {
      await channel.deleteQueue(queue);
      await connection.close();
      await pool.end();
    },
  };
}

/**
 * Bare publishing with amqplib: persistent, mandatory, confirmed, `WINDOW` unconfirmed at most.
 * @param {import('amqplib').ConfirmChannel} channel
 * @param {import('amqplib').GetMessage} like
 * @param {number} count
 */
async function publishAll(channel, like, count) {
  const { exchange, routingKey } = like.fields;
  const { headers, ...properties } = like.properties;
  const options = { ...properties, headers, persistent: true, mandatory: true };
  let unconfirmed = 0;
  let wake = () => {};
  for (let sent = 0; sent < count; sent++) {
    if (unconfirmed >= WINDOW) await new Promise(resolve => (wake = () => resolve(undefined)));
    unconfirmed++;
    const isRoomLeft = channel.publish(exchange, routingKey, like.content, options, error => {
      if (error) throw error;
      unconfirmed--;
      wake();
    });
    if (!isRoomLeft) await once(channel, 'drain');
  }
  await channel.waitForConfirms();
}

/** @returns {Promise<Target>} */
async function redis() {
  const { url, pool } = await makeDatabase('bench_redis');
  const client = new Redis(REDIS_URL);
  const taker = client.duplicate();
  // Kombu has a list for each of four priorities; this is the one of ordinary tasks.
  const list = 'bench\u0006\u00169';
  return {
    name: 'Redis',
    queue: 'bench',
    config: { database: url, broker: REDIS_URL },
    flags: [],
    outbox: pool,
    arrived: () => client.llen(list),
    clear: async () => void (await client.del(list)),
    consume: async onMessage => {
      void (async () => {
        for (;;) {
          const [, element = '{}'] = (await taker.brpop(list, 0)) ?? [];
          onMessage(String(JSON.parse(element).headers?.id));
        }
      })().catch(() => undefined);
    },
    publish: async count => {
      const like = await client.lindex(list, 0);
      if (like === null) throw new Error('no message to publish the like of');
      for (let left = count; left > 0; left -= WINDOW) {
        const pipeline = client.pipeline();
        for (let at = 0; at < Math.min(left, WINDOW); at++) pipeline.lpush(list, like);
        await pipeline.exec();
      }
    },
    put: id => void client.lpush(list, JSON.stringify({ body: BODY, headers: { id } })),
    close: async () => {
      taker.disconnect();
      client.disconnect();
      await pool.end();
    },
  };
}
