// @ts-check
/** Whether a relay keeps its rate and its memory when a million rows wait, as after an outage of the broker. */
import { residentMb } from '../outlast.mjs';
import { median } from '../runner.mjs';
import { commitTasks, openTargets, startRelay, untilRelayed } from '../targets.mjs';

const SAMPLE_EVERY_MS = 250;

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const counts = isQuick ? [2_000, 50_000] : [10_000, 1_000_000];
  const { targets, skipped } = await openTargets(log, ['other database', 'RabbitMQ classic']);
  const rows = [];
  const ratios = [];
  for (const target of targets) {
    const measured = [];
    for (const count of counts) {
      log(`${target.name}, ${count} rows`);
      measured.push(await measureCount(target, count));
    }
    rows.push(...measured.flatMap(one => rowsOf(target.name, one)));
    const [few, many] = measured;
    if (few === undefined || many === undefined) continue;
    ratios.push(
      {
        name: `${target.name}: rate of many / of few`,
        value: many.rate / few.rate,
        bar: 'at least 0.8',
      },
      {
        name: `${target.name}: memory, last quarter / second quarter`,
        value: quarterOf(many.memoryMb, 3) / quarterOf(many.memoryMb, 1),
        bar: 'about 1',
      },
    );
    await target.close();
  }
  return {
    name: 'backlog',
    title: 'a long queue against a short one',
    rows,
    ratios,
    notes: skipped,
  };
}

/**
 * @param {import('../targets.mjs').Target} target
 * @param {number} count
 */
async function measureCount(target, count) {
  const relay = await startRelay(target);
  /** @type {number[]} */
  const memoryMb = [];
  const committedAt = await commitTasks(target, count);
  const timer = setInterval(() => memoryMb.push(residentMb(relay.child.pid) ?? 0), SAMPLE_EVERY_MS);
  const relayedAt = await untilRelayed(target);
  clearInterval(timer);
  relay.child.kill('SIGTERM');
  await relay.ended;
  await target.clear();
  await target.outbox.query('vacuum outlast_outbox');
  return { count, memoryMb, rate: (count / (relayedAt - committedAt)) * 1000 };
}

/**
 * @param {string} name
 * @param {Awaited<ReturnType<typeof measureCount>>} measured
 */
function rowsOf(name, { count, rate, memoryMb }) {
  const label = `${name}, ${count.toLocaleString('en')} rows`;
  const quarters = [0, 1, 2, 3].map(quarter => quarterOf(memoryMb, quarter));
  return [
    { name: label, value: rate, unit: 'rows/s', rounds: [] },
    {
      name: `${label}: memory`,
      value: Math.max(...memoryMb),
      unit: 'MB at most',
      rounds: quarters,
    },
  ];
}

/**
 * @param {readonly number[]} values
 * @param {number} quarter
 */
function quarterOf(values, quarter) {
  const size = values.length / 4;
  return median(values.slice(Math.floor(quarter * size), Math.ceil((quarter + 1) * size)));
}
