import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import type { PoolClient } from 'pg';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRabbit, type OwnRabbit } from '../support/rabbit-server.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import {
  celeryVersion,
  endProcess,
  outputOf,
  runScript,
  startCeleryWorker,
  type CeleryTarget,
} from './celery-kit.ts';

/** Celery before 5.5 cannot consume from quorum queues, and delays nothing at the broker. */
const [major = 0, minor = 0] = celeryVersion();
const canConsume = major > 5 || (major === 5 && minor >= 5);

describe('quorum queues', () => {
  let broker: OwnRabbit;
  let rabbit: RabbitInspector;
  let database: MigratedDatabase;
  let redis: OwnRedis;
  let store: RedisConnection;
  let outlast: Outlast<PoolClient>;
  const services: Service[] = [];

  const python = unique('python');
  const now = task('ts.now', { result: unchecked<number>() });
  const record = task('interop.record', { queue: python, args: unchecked<[string]>() });

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('quorum'), await startRedis()];
    // A server of its own: nothing on it was declared by a Celery worker.
    broker = await startRabbit();
    rabbit = await RabbitInspector.connect(broker.url);
    store = await RedisConnection.open({ url: redis.url, role: 'ledger', name: 'quorum' });
    outlast = createOutlast({
      database: database.url,
      broker: { url: broker.url, queueType: 'quorum' },
      adapter: fromPg(database.pool),
    });
    services.push(await startRelay(outlast), await startResurrector(outlast));
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await rabbit.close();
    await broker.dispose();
    store.close();
    await redis.dispose();
    await database.dispose();
  });

  const consume = async (queue: string) => {
    const tasks = [outlast.handler(now, () => Date.now())];
    services.push(await startWorker(outlast, { tasks, queues: [queue], idleTime: '100ms' }));
  };
  const targetOf = (exchangeType: string, queues: readonly string[]): CeleryTarget => ({
    broker: broker.url.replace(/\/$/, '//'),
    backend: 'rpc://',
    store: redis.url,
    quorum: { exchangeType, queues },
  });
  const isThere = async (exchange: string) =>
    await rabbit
      .with(channel => channel.checkExchange(exchange))
      .then(() => true)
      .catch(() => false);

  describe.each(['topic', 'direct'])('with %s exchanges in Python', exchangeType => {
    const [first, second] = [unique('first'), unique('second')];

    it('that only we consume get what Python sends, now and later', async () => {
      await consume(first);
      await until(async () => await isThere('celery_delayed_delivery'));
      const [answer] = await runScript(targetOf(exchangeType, [first]), 'delayed.py', first);
      expect(answer).toEqual({ isTooEarly: false });
    });

    it.runIf(canConsume)('that Python declared get it too, and its worker no error', async () => {
      const target = targetOf(exchangeType, [first, second]);
      const worker = await startCeleryWorker(target, [second]);
      await endProcess(worker);
      expect(outputOf(worker)).not.toMatch(/failed|PRECONDITION|Traceback/i);
      await consume(second);
      const [answer] = await runScript(target, 'delayed.py', second);
      expect(answer).toEqual({ isTooEarly: false });
    });
  });

  it.runIf(canConsume)('of Python get what we send, now and later', async () => {
    const worker = await startCeleryWorker(targetOf('topic', [python]), [python]);
    onTestFinished(async () => await endProcess(worker));
    const ran = async (key: string) =>
      ((await store.command('lrange', key, 0, -1)) as readonly Buffer[]).length;
    // More than Python holds at a time: what is not due must not keep it from the rest.
    for (let count = 0; count < 10; count++)
      await outlast.push(record, { args: ['hour'] }, { countdown: '1h' });
    await outlast.push(record, { args: ['soon'] }, { countdown: '2s' });
    await outlast.push(record, { args: ['now'] });
    await until(async () => (await ran('now')) === 1 && (await ran('soon')) === 1);
    expect(await ran('hour')).toBe(0);
  });
});
