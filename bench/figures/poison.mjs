// @ts-check
/**
 * What one row that no broker will ever take costs the others: rows per second to RabbitMQ with one row in every thousand
 * sent to an exchange that is not there, beside the same without it. RabbitMQ closes a channel because of such a message.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { median, ROUNDS } from '../runner.mjs';
import { commitTasks, openTargets, startRelay, WINDOW } from '../targets.mjs';

/** @typedef {import('../targets.mjs').Target} Target */

const LOOK_EVERY_MS = 10;

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 5_000 : 50_000;
  const { targets, skipped } = await openTargets(log, ['RabbitMQ classic']);
  /** @type {Record<string, number[]>} */
  const rates = { 'all healthy': [], 'one poison row in 1,000': [] };
  for (const target of targets) {
    const relay = await startRelay(target);
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, rounds] of Object.entries(rates)) {
        log(`${round === 0 ? 'warm-up' : `round ${round}`}, ${name}`);
        const rate = await measureRound(target, count, name !== 'all healthy');
        if (round > 0) rounds.push(rate);
      }
    }
    relay.child.kill('SIGTERM');
    await relay.ended;
    await target.close();
  }
  const [clean = [], poisoned = []] = Object.values(rates);
  return {
    name: 'poison',
    title: `${count.toLocaleString('en')} rows, batches of 1,000, window of ${WINDOW.toLocaleString('en')}`,
    rows: Object.entries(rates).map(([name, rounds]) => ({
      name,
      value: median(rounds),
      unit: 'healthy rows/s',
      rounds,
    })),
    ratios: [
      {
        name: 'with poison / all healthy',
        value: median(poisoned.map((rate, round) => rate / (clean[round] ?? Number.NaN))),
        bar: 'at least 0.9',
      },
    ],
    notes: skipped,
  };
}

/**
 * Healthy rows per second, from their commit to the arrival of the last.
 * @param {Target} target
 * @param {number} count
 * @param {boolean} isPoisoned
 */
async function measureRound(target, count, isPoisoned) {
  const healthy = isPoisoned ? count - count / 1_000 : count;
  const committedAt = await commitTasks(target, count, isPoisoned ? 'bench_missing' : undefined);
  while ((await target.arrived()) < healthy) await delay(LOOK_EVERY_MS);
  const rate = (healthy / (performance.now() - committedAt)) * 1000;
  await target.outbox.query('delete from outlast_outbox');
  await target.clear();
  return rate;
}
