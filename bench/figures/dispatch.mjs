// @ts-check
/**
 * What `push` costs beyond a bare publish of the same message: one after the other, each waited for, so that the
 * difference is ours and not the broker's.
 */
import { connect } from 'amqplib';
import { Redis } from 'ioredis';
import { INPUT, RABBITMQ_URL, REDIS_URL } from '../contenders.mjs';
import { makeDatabase } from '../database.mjs';
import { createOutlast, fromPg, task, unchecked } from '../outlast.mjs';
import { quantile } from '../runner.mjs';

const noop = task('bench.noop', { input: unchecked() });
const QUEUE = 'bench_dispatch';
/** Kombu has a list for each of four priorities; this is the one of ordinary tasks. */
const LIST = `${QUEUE}\u0006\u00169`;

/** @typedef {{ publish: () => Promise<unknown>, close: () => Promise<void> }} Bare */

/** @param {import('../figures.mjs').Plan} plan */
export async function measureFigure({ isQuick, log }) {
  const count = isQuick ? 300 : 3_000;
  const rows = [];
  const ratios = [];
  const brokers = [
    { name: 'Redis', broker: REDIS_URL, bareOf: bareRedis },
    { name: 'RabbitMQ', broker: RABBITMQ_URL, bareOf: bareRabbit },
  ];
  for (const { name, broker, bareOf } of brokers) {
    log(name);
    const { url, pool } = await makeDatabase(`bench_dispatch_${name.toLowerCase()}`);
    const outlast = createOutlast({ database: url, broker, adapter: fromPg(pool) });
    const push = () => outlast.push(noop, INPUT, { queue: QUEUE });
    await push();
    const bare = await bareOf();
    const times = await measureInTurn([push, bare.publish], count);
    for (const [at, what] of ['push', 'bare publish'].entries()) {
      rows.push(
        ...[0.5, 0.99].map(share => ({
          name: `${name}: ${what}, p${share * 100}`,
          value: quantile(times[at] ?? [], share),
          unit: 'ms',
          rounds: [],
        })),
      );
    }
    const [ours, theirs] = times.map(list => quantile(list, 0.5));
    ratios.push({
      name: `${name}: milliseconds of push beyond a bare publish, p50`,
      value: (ours ?? 0) - (theirs ?? 0),
      bar: 'under 0.2',
    });
    await bare.close();
    await outlast.close();
    await pool.end();
  }
  const title = `one message of 200 bytes at a time, confirmed, ${count.toLocaleString('en')} of each in turn`;
  return { name: 'dispatch', title, rows, ratios, notes: [] };
}

/**
 * @param {readonly (() => Promise<unknown>)[]} calls
 * @param {number} count
 * @returns {Promise<readonly number[][]>} milliseconds of each
 */
async function measureInTurn(calls, count) {
  const times = calls.map(() => /** @type {number[]} */ ([]));
  // A service that pushes is warm: the code of both is compiled by then.
  const warmUp = Math.min(2_000, count);
  for (let turn = 0; turn < count + warmUp; turn++) {
    for (const [at, call] of calls.entries()) {
      const startedAt = performance.now();
      await call();
      if (turn >= warmUp) times[at]?.push(performance.now() - startedAt);
    }
  }
  return times;
}

/** @returns {Promise<Bare>} */
async function bareRedis() {
  const redis = new Redis(REDIS_URL);
  const like = await redis.lindex(LIST, 0);
  if (like === null) throw new Error('no message to publish the like of');
  return {
    publish: () => redis.lpush(LIST, like),
    close: async () => {
      await redis.del(LIST);
      redis.disconnect();
    },
  };
}

/** @returns {Promise<Bare>} */
async function bareRabbit() {
  const connection = await connect(RABBITMQ_URL);
  const channel = await connection.createConfirmChannel();
  const like = await channel.get(QUEUE, { noAck: true });
  if (like === false) throw new Error('no message to publish the like of');
  const { exchange, routingKey } = like.fields;
  const { headers, ...properties } = like.properties;
  const options = { ...properties, headers, persistent: true, mandatory: true };
  return {
    publish: () =>
      new Promise((resolve, reject) =>
        channel.publish(exchange, routingKey, like.content, options, error =>
          error ? reject(error) : resolve(undefined),
        ),
      ),
    close: async () => {
      await channel.deleteQueue(QUEUE);
      await connection.close();
    },
  };
}
