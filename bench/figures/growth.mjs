// @ts-check
/**
 * Whether one PostgreSQL stays as fast when it has much: a long backlog, many tasks that are over, delayed ones, many queues,
 * many ordering keys. Each is drained in turn with the same tasks in an emptier database. Then a steady load at half of
 * what one process can do, alone and under a snapshot that somebody holds: its rate, its latency and the sizes of the tables.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { outlastOn } from '../contenders.mjs';
import { median, quantile } from '../runner.mjs';
import { readNotes, untilRan } from '../tallies.mjs';

const FULL = {
  rounds: 5,
  drained: 40_000,
  backlog: 1_000_000,
  over: 1_000_000,
  delayed: 100_000,
  ordered: 100_000,
};
const QUICK = {
  rounds: 2,
  drained: 5_000,
  backlog: 50_000,
  over: 100_000,
  delayed: 20_000,
  ordered: 10_000,
};
const QUEUES = 100;
const ROWS_OF_A_KEY = 10;
const BAR = 'at least 0.85';
const SEED = 500;
const REST_MS = 1_000;

/** @typedef {import('../contenders.mjs').OutlastContender} Contender */

/**
 * @typedef {object} Case
 * @property {string} name
 * @property {(contender: Contender) => Promise<void>} prepare once
 * @property {(contender: Contender, count: number) => Promise<void>} fill before each round
 * @property {readonly string[]} flags of the worker
 * @property {number | null} drains tasks of a round; null: as many as of the others
 */

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const size = isQuick ? QUICK : FULL;
  const plain = makeCase('a short backlog', {});
  const pairs = [
    {
      base: plain,
      other: makeCase(`${show(size.backlog)} tasks wait`, {
        prepare: contender => contender.fill(size.backlog - size.drained),
      }),
    },
    {
      base: plain,
      other: makeCase(`${show(size.over)} tasks are over`, {
        prepare: contender => copyTasks(contender, size.over, OVER),
      }),
    },
    {
      base: plain,
      other: makeCase(`${show(size.delayed)} tasks are delayed`, {
        prepare: contender => copyTasks(contender, size.delayed, DELAYED),
      }),
    },
    { base: plain, other: makeCase(`${QUEUES} queues`, QUEUED) },
    { base: orderedCase(size.ordered / 10), other: orderedCase(size.ordered) },
  ];
  const rows = [];
  const ratios = [];
  for (const { base, other } of pairs) {
    const [few, many] = await measurePair(base, other, size, log);
    rows.push(rowOf(`${base.name} (beside: ${other.name})`, few), rowOf(other.name, many));
    const shares = many.map((rate, round) => rate / (few[round] ?? Number.NaN));
    ratios.push({ name: `${other.name} / ${base.name}`, value: median(shares), bar: BAR });
  }
  const steady = await measureSteady(isQuick ? STEADY_QUICK : STEADY_FULL, log);
  return {
    name: 'growth',
    title: `${show(size.drained)} tasks drained by one process, beside much else`,
    rows: [...rows, ...steady.rows],
    ratios: [...ratios, ...steady.ratios],
    notes: [
      'Steady load: the latency is from COMMIT to the handler; sizes are those of outlast_task and its indexes.',
    ],
  };
}

const show = (/** @type {number} */ count) => count.toLocaleString('en');
const rowOf = (/** @type {string} */ name, /** @type {number[]} */ rounds) => ({
  name,
  value: median(rounds),
  unit: 'tasks/s',
  rounds,
});

/** @param {string} name @param {Partial<Case>} parts @returns {Case} */
const makeCase = (name, parts) => ({
  name,
  prepare: async () => undefined,
  fill: (contender, count) => contender.fill(count),
  flags: [],
  drains: null,
  ...parts,
});

let databases = 0;

/**
 * @param {Case} base
 * @param {Case} other
 * @param {typeof FULL} size
 * @param {(line: string) => void} log
 */
async function measurePair(base, other, { rounds, drained }, log) {
  const sides = [];
  for (const one of [base, other]) {
    databases += 1;
    const database = `bench_growth_${databases}`;
    const parts = { database, queue: database, store: /** @type {const} */ ('postgres') };
    const contender = await outlastOn(one.name, parts);
    // What is copied for tasks that never run.
    await contender.fill(SEED);
    await contender.pool.query(`update outlast_task set state = 'template'`);
    log(`preparing ${one.name}`);
    await one.prepare(contender);
    await contender.pool.query('vacuum analyze');
    sides.push({ one, contender, rates: /** @type {number[]} */ ([]) });
  }
  for (let round = 1; round <= rounds; round++)
    for (const { one, contender, rates } of sides) {
      const count = one.drains ?? drained;
      await one.fill(contender, count);
      await contender.pool.query('checkpoint');
      await delay(REST_MS);
      const running = contender.start(1, { flags: one.flags });
      const { perSecond } = await untilRan(running.folder, count);
      await running.stop();
      rates.push(perSecond);
      log(`round ${round}, ${one.name}: ${Math.round(perSecond)}/s`);
    }
  for (const { contender } of sides) await contender.close();
  return /** @type {[number[], number[]]} */ (sides.map(({ rates }) => rates));
}

const OVER = {
  state: `'done'`,
  ending: `'done'`,
  ended_at: 'now()',
  keep_until: `now() + interval '1 day'`,
  body: `''`,
};
const DELAYED = { due: `now() + interval '1 day'`, eta: `now() + interval '1 day'` };

/**
 * Copies of tasks that were sent, under new ids. They never run: a digest is about the id, too.
 * @param {Contender} contender
 * @param {number} count
 * @param {Readonly<Record<string, string>>} changed columns that have another value
 */
async function copyTasks({ pool }, count, changed) {
  const { rows } = await pool.query(
    `select column_name as name from information_schema.columns
     where table_name = 'outlast_task' and is_identity = 'NO' and is_generated = 'NEVER'`,
  );
  const names = rows.map(({ name }) => String(name));
  /** @type {Record<string, string>} */
  const values = { id: 'gen_random_uuid()::text', state: `'waiting'`, ...changed };
  await pool.query(
    `insert into outlast_task (${names.join(', ')})
     select ${names.map(name => values[name] ?? name).join(', ')}
     from outlast_task, generate_series(1, $1::int) n where state = 'template'`,
    [count / SEED],
  );
}

const MANY = Array.from({ length: QUEUES }, (_, n) => `many_${n}`);
const QUEUED = {
  fill: (/** @type {Contender} */ contender, /** @type {number} */ count) =>
    contender.fillWith(count, n => ({ queue: MANY[n % QUEUES] })),
  flags: ['--queues', MANY.join(',')],
};

/** Rows of the outbox, ten under each key: workers move them. @param {number} count */
const orderedCase = count =>
  makeCase(`${show(count / ROWS_OF_A_KEY)} ordering keys, ${show(count)} rows`, {
    drains: count,
    fill: contender =>
      contender.fillWith(count, n => ({ orderingKey: `key-${n % (count / ROWS_OF_A_KEY)}` })),
  });

const STEADY_FULL = { seconds: 1_200, heldFrom: 300, heldFor: 300, parts: 8 };
const STEADY_QUICK = { seconds: 16, heldFrom: 4, heldFor: 8, parts: 4 };
/** Sends a second. Half of what one process does on two cores that do nothing else. */
const STEADY_RATE = Number(process.env.BENCH_STEADY_RATE ?? 1_000);
const TICK_MS = 20;

/**
 * @param {typeof STEADY_FULL} plan
 * @param {(line: string) => void} log
 */
async function measureSteady(plan, log) {
  const rows = [];
  const ratios = [];
  for (const isHeld of [false, true]) {
    const name = isHeld ? `a snapshot held for ${plan.heldFor} s` : 'steady load';
    log(`${name}, ${plan.seconds} s`);
    const database = isHeld ? 'bench_held' : 'bench_steady';
    const parts = { database, queue: database, store: /** @type {const} */ ('postgres') };
    const contender = await outlastOn(name, parts);
    const measured = await loadSteadily(contender, { ...plan, isHeld });
    await contender.close();
    const label = (/** @type {string} */ what) => `${name}, ${STEADY_RATE}/s: ${what}, by part`;
    const of = (/** @type {(part: Part) => number} */ read) => measured.map(read);
    rows.push(
      {
        name: label('ran'),
        value: median(of(part => part.rate)),
        unit: 'tasks/s',
        rounds: of(part => part.rate),
      },
      {
        name: label('p50'),
        value: median(of(part => part.p50)),
        unit: 'ms',
        rounds: of(part => part.p50),
      },
      {
        name: label('p99'),
        value: median(of(part => part.p99)),
        unit: 'ms',
        rounds: of(part => part.p99),
      },
      {
        name: label('table'),
        value: median(of(part => part.mb)),
        unit: 'MB',
        rounds: of(part => part.mb),
      },
    );
    const last = measured.at(-1);
    const first = measured[0];
    ratios.push({
      name: `${name}: p50 of the last part / of the first`,
      value: (last?.p50 ?? Number.NaN) / (first?.p50 ?? Number.NaN),
      bar: 'about 1',
    });
  }
  return { rows, ratios };
}

/** @typedef {{ rate: number, p50: number, p99: number, mb: number }} Part */

/**
 * @param {Contender} contender
 * @param {typeof STEADY_FULL & { isHeld: boolean }} plan
 * @returns {Promise<Part[]>}
 */
async function loadSteadily(contender, { seconds, heldFrom, heldFor, parts, isHeld }) {
  const { pool } = contender;
  // What is over goes after a moment, so that as much goes as comes.
  const flags = ['--dedup-window', '5s', '--result-ttl', '5s'];
  const running = contender.start(1, { flags });
  const resurrector = contender.tidy();
  /** @type {{ at: number, ids: readonly string[] }[]} */
  const sent = [];
  const sizes = /** @type {number[]} */ ([]);
  const foreign = isHeld ? await pool.connect() : null;
  const startedAt = performance.now();
  let isHolding = false;
  let count = 0;
  for (;;) {
    const passed = (performance.now() - startedAt) / 1000;
    if (passed >= seconds) break;
    if (foreign !== null && passed >= heldFrom !== isHolding && passed < heldFrom + heldFor) {
      isHolding = true;
      await foreign.query('begin isolation level repeatable read');
      await foreign.query('select count(*) from outlast_task');
    }
    if (foreign !== null && isHolding && passed >= heldFrom + heldFor) {
      isHolding = false;
      await foreign.query('rollback');
    }
    if (sizes.length < Math.floor((passed / seconds) * parts)) sizes.push(await sizeOf(pool));
    const due = Math.floor(passed * STEADY_RATE) - count;
    if (due > 0) {
      const ids = await contender.sendManySeen(Math.min(due, SEED));
      sent.push({ at: performance.timeOrigin + performance.now(), ids });
      count += ids.length;
    }
    await delay(TICK_MS);
  }
  await delay(REST_MS * 2);
  sizes.push(await sizeOf(pool));
  foreign?.release();
  await running.stop();
  await resurrector.stop();
  return partsOf({ notes: readNotes(running.folder), sent, sizes, seconds, parts });
}

/** @param {import('pg').Pool} pool */
async function sizeOf(pool) {
  const { rows } = await pool.query(
    `select pg_total_relation_size('outlast_task')::float8 / 1048576 as mb`,
  );
  return Number(rows[0].mb);
}

/**
 * @param {{ notes: readonly import('../tallies.mjs').Note[], sent: readonly { at: number, ids: readonly string[] }[], sizes: readonly number[], seconds: number, parts: number }} load
 * @returns {Part[]}
 */
function partsOf({ notes, sent, sizes, seconds, parts }) {
  const ranAt = new Map(notes.map(({ at, words }) => [words[1] ?? '', at]));
  const from = sent[0]?.at ?? 0;
  return Array.from({ length: parts }, (_, part) => {
    const partMs = (seconds * 1000) / parts;
    const mine = sent.filter(({ at }) => Math.floor((at - from) / partMs) === part);
    const latencies = mine.flatMap(({ at, ids }) =>
      ids.map(id => Math.max(0, (ranAt.get(id) ?? Infinity) - at)),
    );
    return {
      rate: latencies.filter(Number.isFinite).length / (partMs / 1000),
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      mb: sizes[part] ?? Number.NaN,
    };
  });
}
