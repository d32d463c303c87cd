// @ts-check
/**
 * From SIGKILL of the process that runs a task to its next start in another process that is there already, beside a real
 * Celery with its defaults and with `acks_late`. On Redis Celery waits for the visibility timeout, an hour by default: it is set to
 * a few seconds here, and what comes on top of that is what is measured.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { makeDatabase } from '../database.mjs';
import { startCli } from '../outlast.mjs';
import { median } from '../runner.mjs';

const FOLDER = fileURLToPath(new URL('../celery/', import.meta.url));
const BROKERS = {
  RabbitMQ: process.env.OUTLAST_TEST_RABBITMQ_URL ?? '',
  Redis: process.env.OUTLAST_TEST_REDIS_URL ?? '',
};
const VISIBILITY_SECONDS = 5;
const LOOK_EVERY_MS = 5;
const START_MS = 60_000;

/**
 * Those who run tasks: at least two processes.
 * @typedef {{ queue: string, env: Record<string, string>, kill: (pid: number) => void, stop: () => Promise<void> }} Fleet
 * @type {Readonly<Record<string, { patienceMs: number, start: (broker: string) => Promise<Fleet> }>>}
 */
const CANDIDATES = {
  Outlast: { patienceMs: 30_000, start: startOutlast },
  'Celery acks_late': { patienceMs: 120_000, start: broker => startCelery(broker, '1') },
  'Celery defaults': { patienceMs: 10_000, start: broker => startCelery(broker, '0') },
};

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const rows = [];
  const notes = [
    `On Redis Celery's visibility timeout is ${VISIBILITY_SECONDS} s instead of an hour: add the difference.`,
  ];
  for (const [place, broker] of Object.entries(BROKERS)) {
    for (const [name, { patienceMs, start }] of Object.entries(CANDIDATES)) {
      const times = isQuick || name !== 'Outlast' ? 1 : 10;
      const fleet = await start(broker);
      const rounds = [];
      for (let round = 0; round < times; round++) {
        const ms = await measureKill(fleet, patienceMs);
        log(`${place}, ${name}: ${ms === null ? 'lost' : `${Math.round(ms)} ms`}`);
        if (ms !== null) rounds.push(ms);
      }
      await fleet.stop();
      if (rounds.length > 0)
        rows.push({ name: `${place}, ${name}`, value: median(rounds), unit: 'ms', rounds });
      if (rounds.length < times)
        notes.push(
          `${place}, ${name}: ${times - rounds.length} of ${times} did not run again within ${patienceMs / 1_000} s.`,
        );
    }
  }
  const title = 'SIGKILL of the process that runs a task, to its start in another';
  return { name: 'celery-recovery', title, rows, ratios: [], notes };
}

/**
 * Null: it was not started again in time.
 * @param {Fleet} fleet
 * @param {number} patienceMs
 */
async function measureKill(fleet, patienceMs) {
  const path = join(mkdtempSync(join(tmpdir(), 'outlast-recovery-')), 'starts');
  writeFileSync(path, '');
  await send(fleet, path);
  if (!(await untilStarts(path, 1, START_MS))) throw new Error('the task was not started');
  fleet.kill(startsOf(path)[0] ?? 0);
  const killedAt = performance.now();
  const isBack = await untilStarts(path, 2, patienceMs);
  const ms = performance.now() - killedAt;
  rmSync(path);
  return isBack ? ms : null;
}

/** The processes that have started it. @param {string} path */
const startsOf = path => readFileSync(path, 'utf8').split('\n').filter(Boolean).map(Number);

/** @param {string} path @param {number} count @param {number} patienceMs */
async function untilStarts(path, count, patienceMs) {
  const endsAt = performance.now() + patienceMs;
  while (startsOf(path).length < count) {
    if (performance.now() > endsAt) return false;
    await delay(LOOK_EVERY_MS);
  }
  return true;
}

/** By Celery's own producer, on either side. @param {Fleet} fleet @param {string} path */
async function send({ env, queue }, path) {
  const code = `from recovery import app; app.send_task('recovery.stay', [${JSON.stringify(path)}], queue='${queue}')`;
  const child = spawnPython(['-c', code], env);
  const [exit] = await once(child, 'exit');
  if (exit !== 0) throw new Error(`the producer ended with ${exit}`);
}

/** @param {readonly string[]} args @param {Record<string, string>} env */
function spawnPython(args, env) {
  return spawn(process.env.OUTLAST_TEST_CELERY_PYTHON ?? 'python3', args, {
    cwd: FOLDER,
    env: { ...process.env, ...env, C_FORCE_ROOT: '1', PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'ignore', 'ignore'],
  });
}

/** @param {string} broker */
const environmentOf = broker => ({
  BENCH_BROKER: broker,
  BENCH_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
});

/** The whole worker: the process of the pool that runs the task, and its parent that talks to the broker. @param {number} pid */
function killCelery(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  for (const one of [parent, pid]) process.kill(one, 'SIGKILL');
}

/** Two workers; one that was killed is not replaced. @param {string} broker @param {string} acksLate */
async function startCelery(broker, acksLate) {
  const env = { ...environmentOf(broker), BENCH_ACKS_LATE: acksLate };
  const queue = `recovery.celery.${acksLate}`;
  const quiet = ['--without-gossip', '--without-mingle'];
  const worker = ['-m', 'celery', '-A', 'recovery', 'worker', '-Q', queue, '-c', '1'];
  const children = ['one', 'two'].map(name =>
    spawnPython([...worker, ...quiet, '-n', `${name}@%h`], env),
  );
  const stop = async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  };
  // Both are there before one of them is killed.
  await delay(5_000);
  return { queue, env, kill: killCelery, stop };
}

/** A supervisor with two processes, and the ledger where this broker has it by default. @param {string} broker */
async function startOutlast(broker) {
  const { url, pool } = await makeDatabase('bench_celery_recovery');
  await pool.end();
  process.env.BENCH_DATABASE = url;
  const tasks = [join(FOLDER, 'handlers.mjs')];
  const config = { database: url, broker, tasks };
  const queue = 'recovery.outlast';
  const { child, ended } = startCli(['worker', '--processes', '2', '--queues', queue], config);
  return {
    queue,
    env: environmentOf(broker),
    kill: (/** @type {number} */ pid) => void process.kill(pid, 'SIGKILL'),
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
