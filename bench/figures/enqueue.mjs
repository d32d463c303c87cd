// @ts-check
/**
 * What it costs to send a task with an order: whole transactions per second. Every case is BEGIN, the INSERT of the order,
 * one statement more, COMMIT, through the same `pg` client. Whole transactions, because that is what a user has more or
 * fewer of; the time of the one statement alone would leave out what it makes COMMIT do.
 */
import { randomUUID } from 'node:crypto';
import { makeWorkerUtils } from 'graphile-worker';
import { PgBoss } from 'pg-boss';
import { makeDatabase } from '../database.mjs';
import { createOutlast, fromPg, task, unchecked } from '../outlast.mjs';
import { measure, median, ratioOf } from '../runner.mjs';

const NAME = 'shop.receipt';
const INPUT = { orderId: '17', customer: 'ada@example.com', total: '99.90' };
const CONNECTIONS = [1, 8];

/** An order, and an outbox as one writes it by hand: a key, the same bytes as ours in fewer columns, one index. */
const TABLES = `
  create table orders (
    id bigint generated always as identity primary key,
    customer text not null, total numeric not null, created_at timestamptz not null default now());
  create table hand_written (
    id bigint generated always as identity primary key,
    event_id text not null, topic text not null, queue text not null, payload bytea not null,
    digest text not null, created_at timestamptz not null default now())`;
const GROWING = 'orders, hand_written, outlast_outbox, pgboss.job, graphile_worker._private_jobs';

/** @typedef {(client: import('pg').PoolClient) => Promise<unknown>} Write */

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const rows = [];
  const ratios = [];
  for (const connections of CONNECTIONS) {
    log(`${connections} connection(s)`);
    const results = await measureWith(connections, isQuick ? QUICK : FULL);
    const label = (/** @type {string} */ name) => `${name}, ${connections} conn.`;
    rows.push(
      ...results.map(({ name, perSecond, rounds }) => ({
        name: label(name),
        value: perSecond,
        unit: 'transactions/s',
        rounds,
      })),
    );
    const second = results
      .filter(({ name }) => name !== 'order alone')
      .map(one => secondStatement(one, results));
    rows.push(
      ...second.map(({ name, rounds }) => ({
        name: label(`${name}, second statement alone`),
        value: median(rounds),
        unit: 'µs',
        rounds,
      })),
    );
    const bars = [
      { other: 'hand-written INSERT', bar: 'at least 0.9' },
      { other: 'pg-boss', bar: 'at least 2' },
      { other: 'Graphile Worker', bar: 'at least 2' },
    ];
    ratios.push(
      ...bars.map(({ other, bar }) => ({
        name: label(`outlast.send / ${other}`),
        value: ratioOf(results, 'outlast.send', other),
        bar,
      })),
      ...bars.map(({ other }) => ({
        name: label(`second statement alone: ${other} / outlast.send`),
        value: ratioOfCosts(second, other),
        bar: '',
      })),
    );
  }
  return {
    name: 'enqueue',
    title: 'an order and a task in one transaction',
    rows,
    ratios,
    notes: [
      '`order alone` has no second statement: the distance to it is what the task costs, given as `second statement alone`.',
      'The bars are about whole transactions. With one connection most of one is waiting for the disk, in every library.',
    ],
  };
}

/**
 * @typedef {import('../runner.mjs').Result} Result
 * @typedef {{ name: string, rounds: readonly number[] }} Cost microseconds of each round
 */

/**
 * What a transaction takes longer than one without a task, round by round.
 * @param {Result} result
 * @param {readonly Result[]} results
 * @returns {Cost}
 */
function secondStatement({ name, rounds }, results) {
  const alone = results.find(one => one.name === 'order alone')?.rounds ?? [];
  const micros = rounds.map((rate, round) => 1e6 / rate - 1e6 / (alone[round] ?? Number.NaN));
  return { name, rounds: micros };
}

/**
 * @param {readonly Cost[]} costs
 * @param {string} other
 */
function ratioOfCosts(costs, other) {
  const of = (/** @type {string} */ wanted) =>
    costs.find(({ name }) => name === wanted)?.rounds ?? [];
  const ours = of('outlast.send');
  return median(of(other).map((micros, round) => micros / (ours[round] ?? Number.NaN)));
}

/**
 * Warmed up until the runtime has compiled what each of them runs: after a thousand sends it takes twice as long to make
 * a task as after some thousands.
 */
const FULL = { slices: 20, warmUp: 5_000 };
const QUICK = { slices: 4, warmUp: 1_000 };

/**
 * @param {number} connections
 * @param {{ slices: number, warmUp: number }} size
 */
async function measureWith(connections, { slices, warmUp }) {
  const { url, pool } = await makeDatabase('bench_enqueue', connections);
  await pool.query(TABLES);
  const boss = await startBoss(url);
  await migrateGraphile(url);
  const writes = writesOf(url, pool, boss);
  const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()));
  const cases = Object.entries(writes).map(([name, write]) => ({
    name,
    run: (/** @type {number} */ count) => runAll(clients, count, write),
  }));
  const results = await measure(cases, {
    slices,
    count: 100 * Math.min(connections, 4),
    warmUp,
    betweenRounds: async () => void (await clients[0]?.query(`truncate ${GROWING} cascade`)),
  });
  for (const client of clients) client.release();
  await boss.stop({ graceful: false });
  await pool.end();
  return results;
}

/**
 * @param {string} url
 * @param {import('pg').Pool} pool
 * @param {PgBoss} boss
 * @returns {Record<string, Write>}
 */
function writesOf(url, pool, boss) {
  const outlast = createOutlast({ database: url, adapter: fromPg(pool) });
  const receipt = task(NAME, { input: unchecked() });
  const json = JSON.stringify(INPUT);
  const payload = Buffer.from(
    `[[],${json},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]`,
  );
  const digest = 'd'.repeat(64);
  return {
    'order alone': () => Promise.resolve(),
    'hand-written INSERT': client =>
      client.query(
        'insert into hand_written (event_id, topic, queue, payload, digest) values ($1, $2, $3, $4, $5)',
        [randomUUID(), NAME, 'default', payload, digest],
      ),
    'outlast.send': client => outlast.send(client, receipt, INPUT),
    'pg-boss': client =>
      boss.send(NAME, INPUT, {
        db: { executeSql: (text, values) => client.query(text, values) },
      }),
    'Graphile Worker': client =>
      client.query('select graphile_worker.add_job($1, $2::json)', [NAME, json]),
  };
}

/**
 * Each client takes the next transaction until `count` are done.
 * @param {readonly import('pg').PoolClient[]} clients
 * @param {number} count
 * @param {Write} write
 */
async function runAll(clients, count, write) {
  let left = count;
  await Promise.all(
    clients.map(async client => {
      while (left-- > 0) {
        await client.query('begin');
        await client.query('insert into orders (customer, total) values ($1, $2)', ['ada', '99.9']);
        await write(client);
        await client.query('commit');
      }
    }),
  );
}

/** Without its timers: only its `send` is measured. @param {string} url */
async function startBoss(url) {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue(NAME);
  return boss;
}

/** @param {string} url */
async function migrateGraphile(url) {
  const utils = await makeWorkerUtils({ connectionString: url });
  await utils.migrate();
  await utils.release();
}
