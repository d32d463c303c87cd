// @ts-check
/**
 * Rows per second from the outbox to the broker: all rows are committed at once, and `outlast relay`, a process that runs
 * already, has moved them when the outbox is empty. Beside it what its two halves take when they are written by hand:
 * claiming and deleting the rows, and publishing the messages.
 */
import { median, ROUNDS, secondsOf } from '../runner.mjs';
import { commitTasks, openTargets, startRelay, untilRelayed, WINDOW } from '../targets.mjs';

/** @typedef {import('../targets.mjs').Target} Target */

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 2_000 : 20_000;
  /** @type {Map<string, number[]>} */
  const rates = new Map();
  const note = (/** @type {string} */ name, /** @type {number} */ seconds) =>
    rates.set(name, [...(rates.get(name) ?? []), count / seconds]);
  const { targets, skipped } = await openTargets(log);
  const relays = [];
  for (const target of targets) relays.push(await startRelay(target));
  // The first round warms up disks, caches and queues, and is not counted.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const target of targets) {
      log(`${round === 0 ? 'warm-up' : `round ${round}`}, ${target.name}`);
      const seconds = await measureRound(target, count);
      if (round === 0) continue;
      for (const [name, value] of Object.entries(seconds)) note(`${target.name}: ${name}`, value);
    }
  }
  for (const { child } of relays) child.kill('SIGTERM');
  await Promise.all(relays.map(({ ended }) => ended));
  for (const target of targets) await target.close();
  const rows = [...rates].map(([name, rounds]) => ({
    name,
    value: median(rounds),
    unit: 'rows/s',
    rounds,
  }));
  return {
    name: 'relay',
    title: `${count.toLocaleString('en')} rows, batches of 1,000, window of ${WINDOW.toLocaleString('en')}`,
    rows,
    ratios: targets.map(target => ratioOf(target, rates)),
    notes: skipped,
  };
}

/**
 * @param {Target} target
 * @param {number} count
 * @returns {Promise<Record<string, number>>} seconds of each case
 */
async function measureRound(target, count) {
  const committedAt = await commitTasks(target, count);
  const seconds = ((await untilRelayed(target)) - committedAt) / 1000;
  const arrived = await target.arrived();
  if (arrived !== count) throw new Error(`${arrived} of ${count} messages arrived`);
  const { publish } = target;
  const publishing = publish === null ? null : await secondsOf(() => publish(count));
  await target.clear();
  const claiming = await measureClaiming(target.outbox, count);
  return {
    'outlast relay': seconds,
    'bare claim+delete': claiming,
    ...(publishing === null ? {} : { 'bare publishing': publishing }),
  };
}

const CLAIM = `
  with due as materialized (
    select id from bare_outbox where state = 'pending' and available_at <= now()
    order by available_at, id limit 1000 for update skip locked)
  update bare_outbox o
  set state = 'claimed', claim_token = $1, claimed_by = 'bench', claimed_until = now() + interval '1 minute'
  from due where o.id = due.id
  returning o.id, o.task_id, o.task_name, o.args, o.kwargs, o.embed, o.options, o.digest`;
const FILL = `
  insert into bare_outbox (task_id, task_name, queue, priority, args, kwargs, embed, options, digest, schema_version,
    payload_version, available_at)
  select gen_random_uuid()::text, 'shop.receipt', 'bench', 0, '[]',
    '{"orderId":"17","customer":"ada@example.com","total":"99.90"}',
    '{"callbacks":null,"errbacks":null,"chain":null,"chord":null}', '{}', repeat('d', 64), 1, 1, now()
  from generate_series(1, $1::int)`;
const DELETE = 'delete from bare_outbox where id = any($1::bigint[]) and claim_token = $2';

/**
 * On a table like the outbox, which no relay looks at.
 * @param {import('pg').Pool} pool
 * @param {number} count
 */
async function measureClaiming(pool, count) {
  const client = await pool.connect();
  await client.query('create table if not exists bare_outbox (like outlast_outbox including all)');
  await client.query(FILL, [count]);
  await client.query('vacuum analyze bare_outbox');
  const seconds = await secondsOf(() => claimAndDelete(client));
  client.release();
  return seconds;
}

/** @param {import('pg').PoolClient} client */
async function claimAndDelete(client) {
  for (let batch = 0; ; batch++) {
    const token = `batch${batch}`;
    const { rows } = await client.query({ name: 'claim', text: CLAIM, values: [token] });
    if (rows.length === 0) return;
    const ids = rows.map(({ id }) => id);
    await client.query({ name: 'delete', text: DELETE, values: [ids, token] });
  }
}

/**
 * @param {Target} target
 * @param {ReadonlyMap<string, readonly number[]>} rates
 */
function ratioOf({ name }, rates) {
  const of = (/** @type {string} */ what) => rates.get(`${name}: ${what}`) ?? [];
  const bare = ['bare claim+delete', 'bare publishing'].map(of).filter(list => list.length > 0);
  const ratios = of('outlast relay').map(
    (rate, round) => rate / Math.min(...bare.map(list => list[round] ?? Infinity)),
  );
  return {
    name: `${name}: relay / the slower of bare publishing and bare claim+delete`,
    value: median(ratios),
    bar: name.startsWith('RabbitMQ') ? 'at least 0.6' : '',
  };
}
