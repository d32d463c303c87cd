// @ts-check
/**
 * From the SIGKILL of a worker to its task running elsewhere, at a random moment of the task. First single processes under
 * a supervisor, which sees them end; then whole supervisors with their process, where only the lease is left to tell.
 * Processes are killed one after the other, as fast as enough others are left: they are replaced meanwhile. Supervisors are
 * killed by fours, because each time a lease has to end.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { hold, TIERS } from '../contenders.mjs';
import { quantile } from '../runner.mjs';
import { readNotes } from '../tallies.mjs';

/** @typedef {import('../contenders.mjs').OutlastContender} Tier */
/** @typedef {import('../contenders.mjs').Running} Running */
/** @typedef {import('../tallies.mjs').Note} Note */

const LONGEST_RUN_MS = 200;
const LOOK_EVERY_MS = 20;
const PATIENCE_MS = 60_000;
/** One task in each process: the one that is killed has a task, and another is free for it. */
const ONE = { concurrency: 1 };
/** Those that die young are replaced later and later, so there are more than one kill needs. */
const PROCESSES = { all: 10, ready: 5 };
const SUPERVISORS = { all: 6, victims: 4 };

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const kills = { process: isQuick ? 10 : 100, supervisor: isQuick ? 4 : 100 };
  const ratios = [];
  for (const [name, open] of Object.entries(TIERS)) {
    const tier = await open();
    log(`${name}: ${kills.process} processes`);
    const ofProcess = await killProcesses(tier, kills.process);
    log(`${name}: ${kills.supervisor} supervisors`);
    const ofSupervisor = await killSupervisors(tier, kills.supervisor);
    await tier.close();
    const cases = [
      { what: 'a process', times: ofProcess, bar: 'under 1,000' },
      { what: 'a whole supervisor', times: ofSupervisor, bar: 'under 6,000: lease + 1 s' },
    ];
    for (const { what, times, bar } of cases) {
      const label = `${name}: SIGKILL of ${what}, ${times.length} times, ms`;
      const at = (/** @type {number} */ share) => quantile(times, share);
      ratios.push({ name: `${label}, p50`, value: at(0.5), bar: '' });
      ratios.push({ name: `${label}, p90`, value: at(0.9), bar: '' });
      ratios.push({ name: `${label}, p99`, value: at(0.99), bar });
      ratios.push({ name: `${label}, largest`, value: Math.max(...times), bar: '' });
    }
  }
  const title = `SIGKILL at a random moment of a task to its next run elsewhere, lease 5 s`;
  const notes = [
    `Processes are killed out of ${PROCESSES.all}; those that replace the ones before start on the same cores meanwhile.`,
    `Supervisors are killed by fours out of six, and a lease has to end each time. Of no more than 100 the p99 is the largest.`,
  ];
  return { name: 'recovery', title, rows: [], ratios, notes };
}

/**
 * @param {Tier} tier
 * @param {number} count
 */
async function killProcesses(tier, count) {
  const running = tier.start(PROCESSES.all, ONE);
  const times = [];
  while (times.length < count) {
    await until(() => (loadedIn([running]) - times.length >= PROCESSES.ready ? true : undefined));
    const kill = (/** @type {number} */ pid) => process.kill(pid, 'SIGKILL');
    times.push(await killRunner(tier, [running], kill));
  }
  await running.stop();
  return times;
}

/**
 * @param {Tier} tier
 * @param {number} count
 */
async function killSupervisors(tier, count) {
  /** @type {Running[]} */
  const places = [];
  const times = [];
  while (times.length < count) {
    const missing = SUPERVISORS.all - (places.length - times.length);
    places.push(...Array.from({ length: missing }, () => tier.start(1, ONE)));
    await until(() => (loadedIn(places) >= places.length ? true : undefined));
    const kill = (/** @type {number} */ pid) => {
      // First the supervisor: it would see its process end.
      process.kill(parentOf(pid), 'SIGKILL');
      process.kill(pid, 'SIGKILL');
    };
    const round = Array.from({ length: SUPERVISORS.victims }, () => killRunner(tier, places, kill));
    times.push(...(await Promise.all(round)));
  }
  await Promise.all(places.map(({ stop }) => stop()));
  return times;
}

/**
 * Sends a task, kills the worker that runs it, and waits for its next run. Milliseconds.
 * @param {Tier} tier
 * @param {readonly Running[]} places
 * @param {(pid: number) => void} kill
 */
async function killRunner(tier, places, kill) {
  const { id } = await tier.push(hold);
  const runOf = (/** @type {boolean} */ isFirst) =>
    until(() =>
      notesOf(places).find(
        ({ words }) => words[0] === 'run' && words[1] === id && (words[2] === '0') === isFirst,
      ),
    );
  const { pid } = await runOf(true);
  await delay(Math.random() * LONGEST_RUN_MS);
  const killedAt = performance.timeOrigin + performance.now();
  kill(pid);
  return (await runOf(false)).at - killedAt;
}

/** @param {readonly Running[]} places @returns {Note[]} */
const notesOf = places => places.flatMap(({ folder }) => readNotes(folder));

/** How many processes have been started in all. @param {readonly Running[]} places */
const loadedIn = places => notesOf(places).filter(({ words }) => words[0] === 'loaded').length;

/** @template T @param {() => T | undefined} find @returns {Promise<T>} */
async function until(find) {
  const startedAt = performance.now();
  for (;;) {
    const found = find();
    if (found !== undefined) return found;
    if (performance.now() - startedAt > PATIENCE_MS)
      throw new Error('what was waited for has not happened');
    await delay(LOOK_EVERY_MS);
  }
}

/** @param {number} pid */
const parentOf = pid => Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
