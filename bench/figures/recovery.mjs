// @ts-check
/**
 * From the SIGKILL of a worker to its task running elsewhere. First one process of two under a supervisor, at a random
 * moment of the task; then a whole supervisor with its process, where only the lease is left to tell.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { hold, TIERS } from '../contenders.mjs';
import { quantile } from '../runner.mjs';
import { untilNoted } from '../tallies.mjs';

/** @typedef {import('../contenders.mjs').OutlastContender} Tier */
/** @typedef {import('../contenders.mjs').Running} Running */

const LONGEST_RUN_MS = 200;

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const kills = { process: isQuick ? 10 : 100, supervisor: isQuick ? 2 : 10 };
  const rows = [];
  const ratios = [];
  for (const [name, open] of Object.entries(TIERS)) {
    const tier = await open();
    log(`${name}: ${kills.process} processes`);
    const ofProcess = await killProcesses(tier, kills.process);
    log(`${name}: ${kills.supervisor} supervisors`);
    const ofSupervisor = await killSupervisors(tier, kills.supervisor);
    await tier.close();
    const cases = [
      { what: 'a process', times: ofProcess, bar: 'under 1,000 ms' },
      { what: 'a whole supervisor', times: ofSupervisor, bar: 'under 6,000 ms: lease + 1 s' },
    ];
    for (const { what, times, bar } of cases) {
      const at = (/** @type {number} */ share) => quantile(times, share);
      const label = `${name}: SIGKILL of ${what}`;
      rows.push({ name: `${label}, p50`, value: at(0.5), unit: 'ms', rounds: [] });
      rows.push({ name: `${label}, largest`, value: Math.max(...times), unit: 'ms', rounds: [] });
      ratios.push({ name: `${label}, milliseconds, p99`, value: at(0.99), bar });
    }
  }
  const title = `SIGKILL to running elsewhere, ${kills.process} processes and ${kills.supervisor} supervisors of each tier`;
  return { name: 'recovery', title, rows, ratios, notes: [] };
}

/**
 * @param {Tier} tier
 * @param {number} count
 */
async function killProcesses(tier, count) {
  const running = tier.start(2);
  const times = [];
  for (let kill = 1; kill <= count; kill++) {
    // Every process that was killed has been replaced, and waits for work.
    await untilLoaded(running, kill + 1);
    times.push(await killRunner(tier, [running], pid => process.kill(pid, 'SIGKILL')));
  }
  await running.stop();
  return times;
}

/**
 * @param {Tier} tier
 * @param {number} count
 */
async function killSupervisors(tier, count) {
  const times = [];
  for (let kill = 1; kill <= count; kill++) {
    const pair = [tier.start(1), tier.start(1)];
    for (const running of pair) await untilLoaded(running, 1);
    times.push(
      await killRunner(tier, pair, pid => {
        // First the supervisor: it would see its process end.
        process.kill(parentOf(pid), 'SIGKILL');
        process.kill(pid, 'SIGKILL');
      }),
    );
    await Promise.all(pair.map(({ stop }) => stop()));
  }
  return times;
}

/**
 * Sends a task, kills whoever runs it, and waits for its next run. Milliseconds.
 * @param {Tier} tier
 * @param {readonly Running[]} places
 * @param {(pid: number) => void} kill
 */
async function killRunner(tier, places, kill) {
  const seen = places.map(({ folder }) => lengthOf(folder));
  await tier.push(hold);
  const news = (/** @type {(note: import('../tallies.mjs').Note) => boolean} */ isIt) =>
    Promise.any(
      places.map(({ folder }, place) =>
        untilNoted(folder, notes => notes.slice(seen[place]).find(isIt)),
      ),
    );
  const first = await news(({ words }) => words[0] === 'run' && words[2] === '0');
  await delay(Math.random() * LONGEST_RUN_MS);
  const killedAt = performance.timeOrigin + performance.now();
  kill(first.pid);
  const next = await news(({ words }) => words[1] === first.words[1] && words[2] !== '0');
  return next.at - killedAt;
}

/** @param {string} folder */
const lengthOf = folder =>
  readdirSync(folder).includes('notes')
    ? readFileSync(`${folder}/notes`, 'utf8').split('\n').length - 1
    : 0;

/**
 * @param {Running} running
 * @param {number} processes so many have been started in all
 */
async function untilLoaded({ folder }, processes) {
  await untilNoted(folder, notes =>
    notes.filter(({ words }) => words[0] === 'loaded').length >= processes ? true : undefined,
  );
}

/** @param {number} pid */
const parentOf = pid => Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
