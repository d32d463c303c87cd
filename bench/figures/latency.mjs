// @ts-check
/**
 * From the answer to COMMIT to the moment a consumer has the message, while nothing else happens. In turn with it a message
 * that is written to the same queue by hand: what it takes is the broker's own, such as the disk a quorum queue waits for.
 * Without a broker there is nothing in between: there it is the first line of the handler that has the task.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { TIERS } from '../contenders.mjs';
import { startCli } from '../outlast.mjs';
import { quantile } from '../runner.mjs';
import { readNotes, untilNoted } from '../tallies.mjs';
import { makeSender, openTargets } from '../targets.mjs';

/** Long enough for the relay to be asleep again. */
const GAP_MS = { least: 20, most: 80 };

/** The first ones find everything cold, and the relay perhaps not yet started. */
const COLD = 10;

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const sends = isQuick ? 60 : 300;
  const { targets, skipped } = await openTargets(log);
  log('PostgreSQL, no broker');
  const direct = await measureDirect(sends);
  const rows = rowsOf('PostgreSQL, no broker: commit to handler', direct);
  for (const target of targets) {
    log(target.name);
    const { latencies, bare } = await measureTarget(target, sends);
    rows.push(...rowsOf(target.name, latencies));
    if (bare.length > 0) rows.push(...rowsOf(`${target.name}: bare publishing`, bare));
    await target.close();
  }
  return {
    name: 'latency',
    title: `commit to consumer on an idle system, ${sends} sends`,
    rows,
    ratios: [],
    notes: ['Bars: p50 under 10 ms, p99 under 50 ms; without a broker 3 ms and 20 ms.', ...skipped],
  };
}

/**
 * @param {string} name
 * @param {readonly number[]} latencies
 */
function rowsOf(name, latencies) {
  return [0.5, 0.99].map(share => ({
    name: `${name}, p${share * 100}`,
    value: quantile(latencies, share),
    unit: 'ms',
    rounds: [],
  }));
}

/** In a worker that is asleep. @param {number} sends */
async function measureDirect(sends) {
  const contender = await /** @type {NonNullable<(typeof TIERS)[string]>} */ (
    TIERS['PostgreSQL']
  )();
  const running = contender.start(1);
  await untilNoted(running.folder, notes => notes.find(({ words }) => words[0] === 'loaded'));
  /** @type {Map<string, number>} */
  const committed = new Map();
  const seenOf = (/** @type {string} */ id) =>
    readNotes(running.folder).find(({ words }) => words[1] === id);
  for (let at = 0; at < sends + COLD; at++) {
    const id = await contender.sendSeen();
    const committedAt = performance.timeOrigin + performance.now();
    if (at >= COLD) committed.set(id, committedAt);
    while (seenOf(id) === undefined) await delay(1);
    await delay(GAP_MS.least + Math.random() * (GAP_MS.most - GAP_MS.least));
  }
  const notes = readNotes(running.folder);
  await running.stop();
  await contender.close();
  return notes.flatMap(({ at, words: [, id = ''] }) => {
    const committedAt = committed.get(id);
    return committedAt === undefined ? [] : [Math.max(0, at - committedAt)];
  });
}

/**
 * @param {import('../targets.mjs').Target} target
 * @param {number} sends
 */
async function measureTarget(target, sends) {
  /** @type {Map<string, number>} */
  const arrivals = new Map();
  let wake = () => {};
  const arrivalOf = async (/** @type {string} */ id) => {
    while (!arrivals.has(id)) await new Promise(resolve => (wake = () => resolve(undefined)));
    return /** @type {number} */ (arrivals.get(id));
  };
  await target.consume(id => {
    arrivals.set(id, performance.now());
    wake();
  });
  const relay = startCli(['relay', ...target.flags], target.config);
  const failed = relay.ended.then(() => Promise.reject(new Error('the relay has ended')));
  failed.catch(() => undefined);
  const send = makeSender(target);
  const gap = () => delay(GAP_MS.least + Math.random() * (GAP_MS.most - GAP_MS.least));
  const latencies = [];
  const bare = [];
  for (let at = 0; at < sends + COLD; at++) {
    const id = await send();
    const committedAt = performance.now();
    const arrivedAt = await Promise.race([arrivalOf(id), failed]);
    if (at >= COLD) latencies.push(Math.max(0, arrivedAt - committedAt));
    await gap();
    if (target.put === null) continue;
    const byHand = randomUUID();
    const writtenAt = performance.now();
    target.put(byHand);
    const tookMs = (await arrivalOf(byHand)) - writtenAt;
    if (at >= COLD) bare.push(tookMs);
    await gap();
  }
  relay.child.kill('SIGTERM');
  await relay.ended.catch(() => undefined);
  return { latencies, bare };
}
