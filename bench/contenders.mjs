// @ts-check
/**
 * Workers side by side. Each contender can be given tasks, and started as so many processes on what it was given. All
 * of them run the same task, which does nothing and has 200 bytes of arguments, fifty at a time in each process; Celery
 * has its two children, whatever it is asked for.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Queue } from 'bullmq';
import { makeWorkerUtils } from 'graphile-worker';
import { PgBoss } from 'pg-boss';
import { makeDatabase } from './database.mjs';
import { createOutlast, fromPg, runCli, startCli, task, unchecked } from './outlast.mjs';

export const REDIS_URL = process.env.OUTLAST_TEST_REDIS_URL ?? '';
export const RABBITMQ_URL = process.env.OUTLAST_TEST_RABBITMQ_URL ?? '';
const PYTHON = process.env.OUTLAST_TEST_CELERY_PYTHON ?? '';

export const CONCURRENCY = 50;
const WORKERS = fileURLToPath(new URL('workers/', import.meta.url));
const HANDLERS = join(WORKERS, 'outlast-handlers.mjs');
const BATCH = 1_000;

const QUICK_CLAIMS = { staleTimeoutSeconds: 1, sendTimeout: '500ms' };
const noop = task('bench.noop', { input: unchecked() });
const seen = task('bench.seen', { input: unchecked() });
export const hold = task('bench.hold', { input: unchecked() });
/** With its quotes, name and braces 200 bytes of JSON. */
export const INPUT = { customer: 'ada@example.com', pad: 'x'.repeat(162) };

/**
 * @typedef {object} Running
 * @property {string} folder where its processes tell what they did
 * @property {import('node:child_process').ChildProcess[]} children
 * @property {() => Promise<void>} stop
 *
 * @typedef {object} Contender
 * @property {string} name
 * @property {'redis' | 'postgres'} store whose work is counted
 * @property {(count: number) => Promise<void>} fill
 * @property {(processes: number, options?: { concurrency?: number, isHolding?: boolean, flags?: readonly string[] }) => Running} start
 * @property {() => Promise<void>} close
 * @property {import('pg').Pool} [pool]
 * @property {() => { readonly stop: () => Promise<void> }} [tidy] deletes what is over
 * @property {boolean} [isSlow] gets a fifth of the tasks
 */

/** @typedef {Contender & { send: (what: import('../dist/index.js').Task, count: number) => Promise<void>, push: (what: import('../dist/index.js').Task) => Promise<{ readonly id: string }>, sendSeen: () => Promise<string>, sendManySeen: (count: number) => Promise<readonly string[]>, fillWith: (count: number, optionsOf: (n: number) => object) => Promise<void>, tidy: () => { readonly stop: () => Promise<void> }, queue: string, url: string, pool: import('pg').Pool }} OutlastContender */

/**
 * @param {string} name
 * @param {{ database: string, queue: string, broker?: string, ledger?: string, store: 'redis' | 'postgres', keepResult?: boolean }} parts
 * @returns {Promise<OutlastContender>}
 */
export async function outlastOn(
  name,
  { database, queue, broker, ledger, store, keepResult = true },
) {
  const { url, pool } = await makeDatabase(database);
  const config = {
    database: url,
    tasks: [HANDLERS],
    // Without a broker nothing is claimed for long, and what is over may be forgotten after some seconds.
    ...(broker === undefined ? { relay: QUICK_CLAIMS } : { broker }),
    ...(ledger === undefined ? {} : { ledger }),
  };
  const { tasks: _, ...client } = config;
  const outlast = createOutlast({ ...client, adapter: fromPg(pool) });
  const send = async (
    /** @type {import('../dist/index.js').Task} */ what,
    /** @type {number} */ count,
    /** @type {(n: number) => object} */ optionsOf = () => ({}),
  ) => {
    for (let left = count; left > 0; left -= BATCH) {
      const calls = Array.from({ length: Math.min(left, BATCH) }, (_each, n) =>
        what.with(INPUT, { queue, keepResult, ...optionsOf(left - n) }),
      );
      await outlast.transaction(tx => outlast.sendMany(tx, calls));
    }
    // Without a broker they are where workers look.
    if (broker !== undefined)
      await runCli(
        ['relay', '--drain', '--batch-size', '1000', '--publish-concurrency', '1000'],
        config,
      );
  };
  return {
    name,
    store,
    queue,
    url,
    pool,
    send,
    push: what => outlast.push(what, INPUT, { queue }),
    sendSeen: async () =>
      (await outlast.transaction(tx => outlast.send(tx, seen, INPUT, { queue }))).id,
    sendManySeen: count =>
      outlast.transaction(async tx => {
        const calls = Array.from({ length: count }, () => seen.with(INPUT, { queue }));
        return (await outlast.sendMany(tx, calls)).map(({ id }) => id);
      }),
    fillWith: (count, optionsOf) => send(noop, count, optionsOf),
    tidy: () => {
      const { child } = startCli(['resurrector'], config);
      return { stop: () => stopAll([child]) };
    },
    fill: count => send(noop, count),
    start: (processes, { concurrency = CONCURRENCY, flags = [] } = {}) => {
      const folder = makeFolder();
      const sizes = ['--processes', String(processes), '--concurrency', String(concurrency)];
      const env = { BENCH_FOLDER: folder, BENCH_DATABASE_URL: url };
      const args = ['worker', '--queues', queue, ...sizes, ...flags];
      const { child } = startCli(args, config, env);
      return { folder, children: [child], stop: () => stopAll([child]) };
    },
    close: async () => {
      await outlast.close();
      await pool.end();
    },
  };
}

/** The tiers of Outlast. @type {Readonly<Record<string, () => Promise<OutlastContender>>>} */
export const TIERS = {
  Redis: () =>
    outlastOn('Outlast, Redis', {
      database: 'bench_worker_redis',
      queue: 'bench_redis',
      broker: REDIS_URL,
      store: 'redis',
    }),
  'RabbitMQ + Redis': () =>
    outlastOn('Outlast, RabbitMQ + Redis', {
      database: 'bench_worker_rabbit_redis',
      queue: 'bench_rabbit_redis',
      broker: RABBITMQ_URL,
      ledger: REDIS_URL,
      store: 'redis',
    }),
  'RabbitMQ + PostgreSQL': () =>
    outlastOn('Outlast, RabbitMQ + PostgreSQL', {
      database: 'bench_worker_rabbit',
      queue: 'bench_rabbit',
      broker: RABBITMQ_URL,
      store: 'postgres',
    }),
  PostgreSQL: () =>
    outlastOn('Outlast, PostgreSQL', {
      database: 'bench_worker_postgres',
      queue: 'bench_postgres',
      store: 'postgres',
    }),
};

/** The same tiers with other tasks. @type {Readonly<Record<string, () => Promise<OutlastContender>>>} */
export const VARIANTS = {
  'RabbitMQ + Redis, no results': () =>
    outlastOn('Outlast, RabbitMQ + Redis, no results', {
      database: 'bench_worker_rabbit_untold',
      queue: 'bench_rabbit_untold',
      broker: RABBITMQ_URL,
      ledger: REDIS_URL,
      store: 'redis',
      keepResult: false,
    }),
  'PostgreSQL, no results': () =>
    outlastOn('Outlast, PostgreSQL, no results', {
      database: 'bench_worker_postgres_untold',
      queue: 'bench_postgres_untold',
      store: 'postgres',
      keepResult: false,
    }),
};

/**
 * @param {string} name
 * @param {{ removeOnComplete: boolean }} opts false is its default: it keeps what is done
 * @returns {Promise<Contender>}
 */
async function bullmq(name, opts) {
  const { hostname: host, port, pathname } = new URL(REDIS_URL);
  const connection = { host, port: Number(port), db: Number(pathname.slice(1) || 0) };
  const queue = new Queue('bench-bullmq', { connection });
  return {
    name,
    store: 'redis',
    fill: async count => {
      for (let left = count; left > 0; left -= BATCH) {
        const length = Math.min(left, BATCH);
        await queue.addBulk(Array.from({ length }, () => ({ name: 'noop', data: INPUT, opts })));
      }
    },
    start: (processes, { concurrency = CONCURRENCY, isHolding = false } = {}) =>
      startScripts('bullmq-worker.mjs', processes, {
        BENCH_REDIS_URL: REDIS_URL,
        BENCH_QUEUE: queue.name,
        BENCH_CONCURRENCY: String(concurrency),
        BENCH_HOLD: isHolding ? 'yes' : '',
      }),
    close: async () => {
      await queue.obliterate({ force: true });
      await queue.close();
    },
  };
}

/** @returns {Promise<Contender>} */
async function pgBoss() {
  const { url, pool } = await makeDatabase('bench_worker_pgboss');
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue('noop');
  return {
    name: 'pg-boss',
    store: 'postgres',
    pool,
    fill: async count => {
      for (let left = count; left > 0; left -= BATCH) {
        const length = Math.min(left, BATCH);
        await boss.insert(
          'noop',
          Array.from({ length }, () => ({ data: INPUT })),
        );
      }
    },
    start: processes =>
      startScripts('pg-boss-worker.mjs', processes, {
        BENCH_DATABASE_URL: url,
        BENCH_QUEUE: 'noop',
      }),
    close: async () => {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

/** @returns {Promise<Contender>} */
async function graphile() {
  const { url, pool } = await makeDatabase('bench_worker_graphile');
  const utils = await makeWorkerUtils({ connectionString: url });
  await utils.migrate();
  return {
    name: 'Graphile Worker',
    store: 'postgres',
    pool,
    fill: async count => {
      await pool.query(
        `select graphile_worker.add_job('noop', $1::json) from generate_series(1, $2::int)`,
        [JSON.stringify(INPUT), count],
      );
    },
    start: processes => startScripts('graphile-worker.mjs', processes, { BENCH_DATABASE_URL: url }),
    close: async () => {
      await utils.release();
      await pool.end();
    },
  };
}

/**
 * @param {string} name
 * @param {{ database: string, broker: string, store: 'redis' | 'postgres', results?: string }} parts
 * @returns {Promise<Contender>}
 */
async function celery(name, { database, broker, store, results = '' }) {
  // Its messages are ours: what is compared is what becomes of them.
  const queue = `${database}_celery`;
  const sender = await outlastOn(name, { database, queue, broker, store });
  return {
    ...sender,
    isSlow: true,
    start: () => {
      const folder = makeFolder();
      const args = ['-m', 'celery', '-A', 'celery_app', 'worker', '-Q', queue, '-P', 'prefork'];
      const sizes = [
        '--concurrency',
        '2',
        '--loglevel',
        'ERROR',
        '--without-gossip',
        '--without-mingle',
      ];
      const child = spawn(PYTHON, [...args, ...sizes], {
        cwd: WORKERS,
        env: {
          ...process.env,
          BENCH_FOLDER: folder,
          BENCH_BROKER_URL: broker,
          BENCH_RESULT_URL: results,
        },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      return { folder, children: [child], stop: () => stopAll([child]) };
    },
  };
}

/** Those that Outlast is measured against. @type {Readonly<Record<string, () => Promise<Contender>>>} */
export const RIVALS = {
  BullMQ: () => bullmq('BullMQ', { removeOnComplete: true }),
  'BullMQ, keeps jobs': () => bullmq('BullMQ, keeps jobs', { removeOnComplete: false }),
  'Celery, Redis': () =>
    celery('Celery, Redis', { database: 'bench_celery_redis', broker: REDIS_URL, store: 'redis' }),
  'Celery, RabbitMQ': () =>
    celery('Celery, RabbitMQ', {
      database: 'bench_celery_rabbit',
      broker: RABBITMQ_URL,
      store: 'redis',
    }),
  'Celery, RabbitMQ, results in Redis': () =>
    celery('Celery, RabbitMQ, results in Redis', {
      database: 'bench_celery_results',
      broker: RABBITMQ_URL,
      store: 'redis',
      results: REDIS_URL,
    }),
  'pg-boss': pgBoss,
  'Graphile Worker': graphile,
};

const makeFolder = () => mkdtempSync(join(tmpdir(), 'outlast-bench-'));

/**
 * @param {string} script
 * @param {number} processes
 * @param {Record<string, string>} env
 * @returns {Running}
 */
function startScripts(script, processes, env) {
  const folder = makeFolder();
  const children = Array.from({ length: processes }, () =>
    spawn(process.execPath, [join(WORKERS, script)], {
      env: { ...process.env, BENCH_FOLDER: folder, ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  return { folder, children, stop: () => stopAll(children) };
}

/** @param {readonly import('node:child_process').ChildProcess[]} children */
async function stopAll(children) {
  for (const child of children) child.kill('SIGTERM');
  await Promise.all(
    children.map(async child => {
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }),
  );
}
