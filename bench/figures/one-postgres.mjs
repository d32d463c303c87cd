// @ts-check
/**
 * One PostgreSQL and nothing else: a backlog of tasks that do nothing is drained by one, two and four processes. Beside the
 * rate stands what a task costs: processor time of its worker and of the server, and bytes of the server's log.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { CONCURRENCY, RIVALS, TIERS, VARIANTS } from '../contenders.mjs';
import { median } from '../runner.mjs';
import { costPerTask, readCost } from '../server-cost.mjs';
import { untilRan } from '../tallies.mjs';

/** @typedef {import('../contenders.mjs').Contender & { pool: import('pg').Pool }} Contender */
/** @typedef {'rate' | 'cpu' | 'server' | 'log' | 'sendServer' | 'sendLog' | 'trips'} Part */
/** @typedef {Record<Part, number[]>} Sums */

const REST_MS = 3_000;
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
  { part: 'trips', name: 'transactions', unit: 'per task' },
];

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 10_000 : 40_000;
  const rounds = isQuick ? 3 : 5;
  const sizes = isQuick ? [1, 2] : [1, 2, 4];
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
    for (const processes of sizes)
      for (const contender of contenders) {
        const name = nameOf(contender.name, processes);
        const parts = await measureOne(contender, processes, count);
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
    ratios: [...sizes.flatMap(processes => ratiosOf(sums, processes)), ...growthOf(sums)],
    notes: [
      'Outlast keeps a record of every task for a day, and its result unless told not to; Graphile Worker deletes what is done, pg-boss keeps it.',
      'Costs of the server: all its processes, autovacuum too. From send to waiting: a thousand tasks in one transaction, and the move to the ledger.',
    ],
  };
}

/** @param {string} name @param {number} processes */
const nameOf = (name, processes) => `${name}, ${processes} process${processes === 1 ? '' : 'es'}`;

/** @param {Contender} contender @param {number} processes @param {number} count */
async function measureOne({ pool, fill, start }, processes, count) {
  const atFirst = await readCost(pool);
  await fill(count);
  const sent = costPerTask(atFirst, await readCost(pool), count);
  await pool.query('checkpoint');
  await delay(REST_MS);
  const [before, tripsBefore] = [await readCost(pool), await tripsOf(pool)];
  const running = start(processes);
  const { perSecond, cpuMicrosPerTask } = await untilRan(running.folder, count);
  await running.stop();
  const ran = costPerTask(before, await readCost(pool), count);
  return {
    rate: perSecond,
    cpu: cpuMicrosPerTask,
    server: ran.cpuMicros,
    log: ran.logBytes,
    sendServer: sent.cpuMicros,
    sendLog: sent.logBytes,
    trips: ((await tripsOf(pool)) - tripsBefore) / count,
  };
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

/** Against the better of the two. @param {ReadonlyMap<string, Sums>} sums @param {number} processes */
function ratiosOf(sums, processes) {
  const others = OTHERS.map(other => sums.get(nameOf(other, processes)));
  return [OURS, UNTOLD].flatMap(name => {
    const ours = sums.get(nameOf(name, processes));
    const against = (/** @type {Part} */ part, /** @type {(...all: number[]) => number} */ best) =>
      median(
        (ours?.[part] ?? []).map(
          (value, round) =>
            value / best(...others.map(other => other?.[part][round] ?? Number.NaN)),
        ),
      );
    const bar = processes === 1 || name === UNTOLD ? 'at least 1.2' : 'at least 1';
    const label = `${nameOf(name, processes)} / the better of ${OTHERS.join(' and ')}`;
    return [
      { name: label, value: against('rate', Math.max), bar },
      {
        name: `  CPU of the server, from begin to end`,
        value: against('server', Math.min),
        bar: '',
      },
      { name: `  CPU of its processes`, value: against('cpu', Math.min), bar: '' },
      { name: `  log, from begin to end`, value: against('log', Math.min), bar: '' },
    ];
  });
}

/** Two processes against one. @param {ReadonlyMap<string, Sums>} sums */
function growthOf(sums) {
  return [OURS, UNTOLD, ...OTHERS].map(name => {
    const [one, two] = [1, 2].map(processes => sums.get(nameOf(name, processes))?.rate ?? []);
    return {
      name: `${nameOf(name, 2)} / ${nameOf(name, 1)}`,
      value: median((two ?? []).map((rate, round) => rate / (one?.[round] ?? Number.NaN))),
      bar: name === OURS ? 'at least 1.5 where cores are free' : '',
    };
  });
}
