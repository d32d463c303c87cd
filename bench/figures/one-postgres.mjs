// @ts-check
/**
 * One PostgreSQL and nothing else: a backlog of tasks that do nothing is drained by one, two, four and eight processes, and beside
 * connections that do nothing. Beside the rate stands what a task costs: processor time of its worker and of the server, and bytes
 * of the server's log, from its send until it is forgotten.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { CONCURRENCY, RIVALS, TIERS, VARIANTS } from '../contenders.mjs';
import { Pool } from 'pg';
import { median } from '../runner.mjs';
import { costPerTask, readCost } from '../server-cost.mjs';
import { untilRan } from '../tallies.mjs';

/** @typedef {import('../contenders.mjs').Contender & { pool: import('pg').Pool }} Contender */
/** @typedef {'rate' | 'cpu' | 'server' | 'log' | 'sendServer' | 'sendLog' | 'wholeServer' | 'wholeLog' | 'trips'} Part */
/** @typedef {Record<Part, number[]>} Sums */

const REST_MS = 3_000;
const LOOK_EVERY_MS = 250;
/** So that they can be seen to go. The default is a day for results, and a quarter of an hour for the rest. */
const SHORT = ['--dedup-window', '5s', '--result-ttl', '5s'];
const NAMES = ['PostgreSQL', 'Graphile Worker', 'PostgreSQL, no results', 'pg-boss'];
const OURS = 'Outlast, PostgreSQL';
const UNTOLD = 'Outlast, PostgreSQL, no results';
const OTHERS = ['Graphile Worker', 'pg-boss'];
/** @type {readonly { part: Part, name: string, unit: string }[]} */
const PARTS = [
  { part: 'cpu', name: 'CPU of its processes', unit: 'µs/task' },
  { part: 'server', name: 'CPU of the server, from begin to end', unit: 'µs/task' },
  { part: 'log', name: 'log of the server, from begin to end', unit: 'bytes/task' },
  { part: 'sendServer', name: 'CPU of the server, from send to waiting', unit: 'µs/task' },
  { part: 'sendLog', name: 'log of the server, from send to waiting', unit: 'bytes/task' },
  { part: 'wholeServer', name: 'CPU of the server, from send to forgotten', unit: 'µs/task' },
  { part: 'wholeLog', name: 'log of the server, from send to forgotten', unit: 'bytes/task' },
  { part: 'trips', name: 'transactions', unit: 'per task' },
];

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 10_000 : 40_000;
  const rounds = isQuick ? 3 : 5;
  /** @type {readonly Size[]} */
  const sizes = isQuick
    ? [sizeOf(1), sizeOf(2), sizeOf(2, 16)]
    : [sizeOf(1), sizeOf(2), sizeOf(4), sizeOf(8), sizeOf(2, 16), sizeOf(2, 64)];
  /** @type {Contender[]} */
  const contenders = [];
  for (const name of NAMES) {
    log(`preparing ${name}`);
    const open = TIERS[name] ?? VARIANTS[name] ?? RIVALS[name];
    contenders.push(/** @type {Contender} */ (await open?.()));
  }
  /** @type {Map<string, Sums>} */
  const sums = new Map();
  for (let round = 1; round <= rounds; round++)
    for (const one of sizes)
      for (const contender of contenders) {
        const name = nameOf(contender.name, one);
        const parts = await measureOne(contender, one, count);
        note(sums, name, parts);
        log(
          `round ${round}, ${name}: ${Object.entries(parts)
            .map(([part, value]) => `${part} ${Math.round(value * 100) / 100}`)
            .join(', ')}`,
        );
      }
  for (const { close } of contenders) await close();
  return {
    name: 'one-postgres',
    title: `${count.toLocaleString('en')} tasks of 200 bytes that do nothing, ${CONCURRENCY} at a time in each process, on one PostgreSQL`,
    rows: rowsOf(sums),
    ratios: [...sizes.flatMap(one => ratiosOf(sums, one)), ...growthOf(sums)],
    notes: [
      'Outlast keeps a record of every task, and its result unless told not to, here for some seconds; Graphile Worker deletes what is done, pg-boss keeps it and is never seen to forget it.',
      'Costs of the server: all its processes, autovacuum too. From send to waiting: a thousand tasks in one transaction.',
    ],
  };
}

/** @typedef {{ processes: number, idle: number }} Size worker processes, and connections that do nothing */
/** @param {number} processes @param {number} [idle] @returns {Size} */
const sizeOf = (processes, idle = 0) => ({ processes, idle });

/** @param {string} name @param {Size} size */
const nameOf = (name, { processes, idle }) =>
  `${name}, ${processes} process${processes === 1 ? '' : 'es'}${idle > 0 ? `, ${idle} idle connections` : ''}`;

/** @param {Contender} contender @param {Size} size @param {number} count */
async function measureOne({ pool, fill, start, tidy }, { processes, idle }, count) {
  const others = await idleConnections(pool, idle);
  const atFirst = await readCost(pool);
  await fill(count);
  const sent = costPerTask(atFirst, await readCost(pool), count);
  await pool.query('checkpoint');
  await delay(REST_MS);
  const [before, tripsBefore] = [await readCost(pool), await tripsOf(pool)];
  const running = start(processes, tidy === undefined ? {} : { flags: SHORT });
  const { perSecond, cpuMicrosPerTask } = await untilRan(running.folder, count);
  await running.stop();
  const after = await readCost(pool);
  const ran = costPerTask(before, after, count);
  const trips = ((await tripsOf(pool)) - tripsBefore) / count;
  await others.end();
  if (tidy !== undefined) {
    const tidying = tidy();
    while (await isAnythingLeft(pool)) await delay(LOOK_EVERY_MS);
    await tidying.stop();
  }
  const gone = costPerTask(after, await readCost(pool), count);
  return {
    rate: perSecond,
    cpu: cpuMicrosPerTask,
    server: ran.cpuMicros,
    log: ran.logBytes,
    sendServer: sent.cpuMicros,
    sendLog: sent.logBytes,
    wholeServer: (sent.cpuMicros ?? Number.NaN) + ran.cpuMicros + gone.cpuMicros,
    wholeLog: sent.logBytes + ran.logBytes + gone.logBytes,
    trips,
  };
}

/** Sessions that have asked once, and are asked nothing more. @param {Pool} pool @param {number} count */
async function idleConnections(pool, count) {
  const others = new Pool({ ...pool.options, max: Math.max(1, count), idleTimeoutMillis: 0 });
  const clients = await Promise.all(Array.from({ length: count }, () => others.connect()));
  for (const client of clients) {
    await client.query('select 1');
    client.release();
  }
  return others;
}

/** @param {Pool} pool */
async function isAnythingLeft(pool) {
  const { rows } = await pool.query('select exists (select 1 from outlast_task) as is_left');
  return rows[0].is_left === true;
}

/** @param {import('pg').Pool} pool */
async function tripsOf(pool) {
  const { rows } = await pool.query(
    'select xact_commit as count from pg_stat_database where datname = current_database()',
  );
  return Number(rows[0].count);
}

/** @param {Map<string, Sums>} sums @param {string} name @param {Record<Part, number>} parts */
function note(sums, name, parts) {
  const sum = sums.get(name);
  if (sum === undefined)
    sums.set(
      name,
      /** @type {Sums} */ (
        Object.fromEntries(Object.entries(parts).map(([part, value]) => [part, [value]]))
      ),
    );
  else
    for (const [part, value] of Object.entries(parts)) sum[/** @type {Part} */ (part)].push(value);
}

/** @param {ReadonlyMap<string, Sums>} sums */
function rowsOf(sums) {
  return [...sums].flatMap(([name, sum]) => [
    { name, value: median(sum.rate), unit: 'tasks/s', rounds: sum.rate },
    ...PARTS.map(({ part, name: label, unit }) => ({
      name: `  ${label}`,
      value: median(sum[part]),
      unit,
      rounds: sum[part],
    })),
  ]);
}

/** Against the better of the two. @param {ReadonlyMap<string, Sums>} sums @param {Size} size */
function ratiosOf(sums, size) {
  const others = OTHERS.map(other => sums.get(nameOf(other, size)));
  return [OURS, UNTOLD].flatMap(name => {
    const ours = sums.get(nameOf(name, size));
    const against = (/** @type {Part} */ part, /** @type {(...all: number[]) => number} */ best) =>
      median(
        (ours?.[part] ?? []).map(
          (value, round) =>
            value / best(...others.map(other => other?.[part][round] ?? Number.NaN)),
        ),
      );
    const bar = size.processes === 1 || name === UNTOLD ? 'at least 1.2' : 'at least 1';
    const label = `${nameOf(name, size)} / the better of ${OTHERS.join(' and ')}`;
    return [
      { name: label, value: against('rate', Math.max), bar },
      {
        name: `  CPU of the server, from begin to end`,
        value: against('server', Math.min),
        bar: '',
      },
      { name: `  CPU of its processes`, value: against('cpu', Math.min), bar: '' },
      { name: `  log, from begin to end`, value: against('log', Math.min), bar: '' },
      {
        name: `  CPU of the server, from send to forgotten`,
        value: against('wholeServer', Math.min),
        bar: '',
      },
    ];
  });
}

/** Two processes against one. @param {ReadonlyMap<string, Sums>} sums */
function growthOf(sums) {
  return [OURS, UNTOLD, ...OTHERS].map(name => {
    const [one, two] = [1, 2].map(
      processes => sums.get(nameOf(name, sizeOf(processes)))?.rate ?? [],
    );
    return {
      name: `${nameOf(name, sizeOf(2))} / ${nameOf(name, sizeOf(1))}`,
      value: median((two ?? []).map((rate, round) => rate / (one?.[round] ?? Number.NaN))),
      bar: name === OURS ? 'at least 1.5 where cores are free' : '',
    };
  });
}
