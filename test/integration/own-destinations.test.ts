import { afterAll, beforeAll, describe, it, onTestFinished } from 'vitest';
import { chain, chord, task } from '../../dist/index.js';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { bindingKey, queueKeys } from '../../src/adapters/redis/redis-keys.ts';
import { unique } from '../conformance/envelopes.ts';
import { handlerOf, startFleetWorker, startRecovery } from '../interop/fleet-kit.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { relayedOutlast } from '../support/relayed-outlast.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

let database: MigratedDatabase;
let rabbit: RabbitInspector;
let redis: RedisConnection;

beforeAll(async () => {
  database = await migratedDatabase('own_destinations');
  rabbit = await RabbitInspector.connect();
  redis = await RedisConnection.open({ url: redisUrl(), role: 'broker', name: 'test' });
});
afterAll(async () => {
  redis.close();
  await rabbit.close();
  await database.dispose();
});

interface Tier {
  readonly url: () => string;
  /** The number of messages in a queue. */
  readonly depth: (queue: string) => Promise<number>;
  readonly remove: (queue: string) => Promise<unknown>;
}

const onRabbit: Tier = {
  url: rabbitmqUrl,
  depth: async queue => (await rabbit.depth(queue)) ?? 0,
  remove: queue => rabbit.delete(queue),
};
const onRedis: Tier = {
  url: redisUrl,
  depth: async queue => {
    const { lists } = queueKeys(queue, false);
    const lengths = await Promise.all(lists.map(list => redis.command('llen', list)));
    return lengths.reduce<number>((sum, length) => sum + Number(length), 0);
  },
  remove: queue => redis.command('del', bindingKey(queue), ...queueKeys(queue, false).lists),
};

describe.each([
  ['RabbitMQ', onRabbit],
  ['Redis', onRedis],
])('a queue on %s that no worker has declared, named by our own application', (_, tier) => {
  /** A worker that consumes only the first queue, and an application. */
  async function setup() {
    const [queue, later, body, failed] = ['first', 'later', 'body', 'failed'].map(unique) as [
      string,
      string,
      string,
      string,
    ];
    const first = task(unique('first'), { queue });
    const dies = task(unique('dies'), { queue });
    const next = task(unique('next'), { queue: later });
    const last = task(unique('last'), { queue: body });
    const alarm = task(unique('alarm'), { queue: failed });
    const handlers = [
      handlerOf(first.name, queue, () => 'done'),
      handlerOf(dies.name, queue, () => Promise.reject(new Error('as it should'))),
    ];
    await startFleetWorker({ database: database.url, broker: tier.url(), handlers });
    // It sends the bodies of chords.
    await startRecovery({ database: database.url, broker: tier.url() });
    const relayed = await relayedOutlast(database, { broker: tier.url() });
    onTestFinished(async () => {
      await relayed.dispose();
      for (const name of [queue, later, body, failed]) await tier.remove(name);
    });
    return { outlast: relayed.outlast, first, dies, next, last, alarm, later, body, failed };
  }

  it('receives the follow-ups of an outbox task at once: chains, chords and error links', async () => {
    const { outlast, first, dies, next, last, alarm, later, body, failed } = await setup();
    await outlast.transaction(async tx => {
      await outlast.sendMany(tx, [
        chain(first.with(), next),
        chord([first.with(), first.with()], last),
        dies.with(undefined, { linkError: alarm }),
      ]);
    });
    for (const queue of [later, body, failed])
      await until(async () => (await tier.depth(queue)) > 0);
  });

  it('receives the follow-ups of a pushed task at once', async () => {
    const { outlast, first, next, later } = await setup();
    await outlast.push(first, undefined, { link: next });
    await until(async () => (await tier.depth(later)) > 0);
  });
});
