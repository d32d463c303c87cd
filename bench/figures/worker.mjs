// @ts-check
/**
 * Tasks per second that do nothing: a backlog is drained by one process and by two, fifty tasks at a time in each. What
 * starting costs is left out: the last four fifths of the backlog count.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { CONCURRENCY, hold, REDIS_URL, RIVALS, TIERS, VARIANTS } from '../contenders.mjs';
import { median, ROUNDS } from '../runner.mjs';
import { untilNoted, untilRan } from '../tallies.mjs';

/** @typedef {import('../contenders.mjs').Contender} Contender */
/** @typedef {{ rate: number[], cpu: number[], trips: number[] }} Sums */

/** Servers tidy up after they were given so much: no worker is charged for that. */
const REST_MS = 3_000;
const LOOK_EVERY_MS = 20;
/** Those that are compared stand side by side: a machine that others use is not as fast at one time as at another. */
const ORDER = [
  'BullMQ, keeps jobs',
  'Redis',
  'BullMQ',
  'RabbitMQ + Redis',
  'Celery, RabbitMQ',
  'RabbitMQ + Redis, no results',
  'Celery, RabbitMQ, results in Redis',
  'Celery, Redis',
  'RabbitMQ + PostgreSQL',
  'PostgreSQL',
  'Graphile Worker',
  'pg-boss',
];
const BARS = [
  { of: 'Outlast, Redis', other: 'BullMQ', bar: 'at least 1.2' },
  { of: 'Outlast, RabbitMQ + Redis', other: 'BullMQ', bar: 'at least 1' },
  // The design's tier of RabbitMQ has its ledger in Redis; with one in PostgreSQL there is no bar.
  { of: 'Outlast, RabbitMQ + PostgreSQL', other: 'BullMQ', bar: '' },
  { of: 'Outlast, Redis', other: 'Celery, Redis', bar: 'at least 5' },
  { of: 'Outlast, RabbitMQ + Redis', other: 'Celery, RabbitMQ', bar: 'at least 5' },
  { of: 'Outlast, RabbitMQ + Redis, no results', other: 'Celery, RabbitMQ', bar: 'at least 5' },
  {
    of: 'Outlast, RabbitMQ + Redis',
    other: 'Celery, RabbitMQ, results in Redis',
    bar: 'at least 5',
  },
  { of: 'Outlast, RabbitMQ + PostgreSQL', other: 'Celery, RabbitMQ', bar: '' },
  { of: 'Outlast, PostgreSQL', other: 'pg-boss', bar: '' },
  { of: 'Outlast, PostgreSQL', other: 'Graphile Worker', bar: '' },
];

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 6_000 : 40_000;
  /** @type {Contender[]} */
  const contenders = [];
  for (const name of ORDER) {
    log(`preparing ${name}`);
    const open = TIERS[name] ?? VARIANTS[name] ?? RIVALS[name];
    if (open === undefined) throw new Error(`no candidate is called ${name}`);
    contenders.push(await open());
  }
  /** @type {Map<string, Sums>} */
  const sums = new Map();
  for (let round = 1; round <= ROUNDS; round++) {
    for (const processes of [1, 2]) {
      for (const contender of contenders) {
        // Celery has its two children in any case.
        if (contender.isSlow && processes === 2) continue;
        await measureOne({ contender, processes, count, sums, log });
        log(
          `round ${round}, ${nameOf(contender, processes)}: ${Math.round(sums.get(nameOf(contender, processes))?.rate.at(-1) ?? 0)}/s`,
        );
      }
    }
  }
  const memory = await measureMemory(isQuick ? 200 : 1_000);
  for (const { close } of contenders) await close();
  return {
    name: 'worker',
    title: `${count.toLocaleString('en')} tasks of 200 bytes that do nothing, ${CONCURRENCY} at a time in each process`,
    rows: [...rowsOf(sums), ...memory],
    ratios: BARS.flatMap(bar => ratiosOf(bar, sums)),
    notes: [
      'Round trips: requests that Redis read from sockets, or transactions of PostgreSQL, for each task; of the ancestor 13.',
      'Redis and its log are emptied before each round of each candidate; Outlast keeps a record of every task for a day, BullMQ removes its own, or keeps them, as its default is.',
      'Memory of a task in flight: of the ancestor 1,936 bytes and 11 keys.',
      'Celery has two prefork children and acknowledges late; it has a fifth of the tasks, in the format of Outlast. It keeps results only where that is said; Outlast keeps them unless it is told not to (`keepResult: false`).',
    ],
  };
}

/** @param {Contender} contender @param {number} processes */
const nameOf = ({ name, isSlow }, processes) =>
  isSlow ? name : `${name}, ${processes} process${processes === 1 ? '' : 'es'}`;

/**
 * @param {{ contender: Contender, processes: number, count: number, sums: Map<string, Sums>, log: (line: string) => void }} plan
 */
async function measureOne({ contender, processes, count, sums }) {
  const mine = contender.isSlow ? count / 5 : count;
  await emptyRedis();
  await contender.fill(mine);
  await delay(REST_MS);
  const before = await tripsOf(contender);
  const running = contender.start(processes);
  const { perSecond, cpuMicrosPerTask } = await untilRan(running.folder, mine);
  const trips = ((await tripsOf(contender)) - before) / mine;
  await running.stop();
  const name = nameOf(contender, processes);
  const sum = sums.get(name) ?? { rate: [], cpu: [], trips: [] };
  sum.rate.push(perSecond);
  sum.cpu.push(cpuMicrosPerTask);
  sum.trips.push(trips);
  sums.set(name, sum);
}

/** @param {Contender} contender */
async function tripsOf({ store, pool }) {
  if (store === 'redis') return Number((await redisInfo()).total_reads_processed);
  // Sessions tell what they did when they are idle, once a second.
  const { rows } = await /** @type {import('pg').Pool} */ (pool).query(
    'select xact_commit as count from pg_stat_database where datname = current_database()',
  );
  return Number(rows[0].count);
}

/**
 * No candidate is slowed down by what others, or earlier rounds, have left to be kept: neither by the keys nor by a log that has
 * grown so much that the server writes it anew in the middle of the next round.
 */
async function emptyRedis() {
  const redis = new Redis(REDIS_URL);
  await redis.flushall();
  await redis.bgrewriteaof();
  while ((await redisInfo()).aof_rewrite_in_progress !== '0') await delay(LOOK_EVERY_MS);
  redis.disconnect();
}

async function redisInfo() {
  const redis = new Redis(REDIS_URL);
  const lines = (await redis.info('all')).split('\r\n').map(line => line.split(':'));
  const keys = await redis.dbsize();
  redis.disconnect();
  return /** @type {Record<string, string>} */ ({
    ...Object.fromEntries(lines),
    keys: String(keys),
  });
}

/** @param {ReadonlyMap<string, Sums>} sums */
function rowsOf(sums) {
  const rows = [];
  for (const [name, { rate, cpu, trips }] of sums) {
    rows.push({ name, value: median(rate), unit: 'tasks/s', rounds: rate });
    rows.push({ name: `  CPU of its processes`, value: median(cpu), unit: 'µs/task', rounds: cpu });
    rows.push({ name: `  round trips`, value: median(trips), unit: 'per task', rounds: trips });
  }
  return rows;
}

/**
 * @param {(typeof BARS)[number]} bar
 * @param {ReadonlyMap<string, Sums>} sums
 */
function ratiosOf({ of, other, bar }, sums) {
  const pairs = [1, 2].map(processes => {
    const label = `, ${processes} process${processes === 1 ? '' : 'es'}`;
    return {
      a: `${of}${label}`,
      b: other.startsWith('Celery') ? other : `${other}${label}`,
      processes,
    };
  });
  return pairs.map(({ a, b, processes }) => {
    const [ours, theirs] = [sums.get(a)?.rate ?? [], sums.get(b)?.rate ?? []];
    const ratios = ours.map((rate, round) => rate / (theirs[round] ?? Number.NaN));
    // The bar is about one process.
    return { name: `${a} / ${b}`, value: median(ratios), bar: processes === 1 ? bar : '' };
  });
}

/** Redis with so many tasks running, against Redis with the same workers idle. @param {number} count */
async function measureMemory(count) {
  const outlast = await /** @type {NonNullable<(typeof TIERS)[string]>} */ (TIERS['Redis'])();
  const bullmq = await /** @type {NonNullable<(typeof RIVALS)[string]>} */ (RIVALS['BullMQ'])();
  const cases = [
    { contender: outlast, fill: () => outlast.send(hold, count), noted: 'run' },
    { contender: bullmq, fill: () => bullmq.fill(count), noted: null },
  ];
  const rows = [];
  for (const { contender, fill, noted } of cases) {
    const running = contender.start(1, { concurrency: count, isHolding: true });
    await untilNoted(running.folder, notes => notes.find(({ words }) => words[0] === 'loaded'));
    const before = await redisInfo();
    await fill();
    if (noted === null) await untilRan(running.folder, count);
    else
      await untilNoted(running.folder, notes =>
        notes.filter(({ words }) => words[0] === noted).length >= count ? true : undefined,
      );
    const after = await redisInfo();
    const perTask = (/** @type {string} */ key) =>
      (Number(after[key]) - Number(before[key])) / count;
    rows.push(
      {
        name: `${contender.name}: Redis for a task in flight`,
        value: perTask('used_memory'),
        unit: 'bytes',
        rounds: [],
      },
      { name: `  keys`, value: perTask('keys'), unit: 'keys', rounds: [] },
    );
    for (const child of running.children) child.kill('SIGTERM');
    await running.stop();
    await contender.close();
  }
  return rows;
}
