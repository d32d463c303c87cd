import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { celeryMeta } from '../support/celery-meta.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { isLong } from '../support/selection.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { endProcess, sendFromPython, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';

/** Each time the wrong worker gets a task, it waits longer: the last of many take half a minute. */
const EACH = isLong ? 40 : 4;
const RETRIES = 3;
/** A worker of Python that is kept from its processor meets a task late, after many others have set it aside. */
const LIMIT_MS = 600_000;

let database: MigratedDatabase;
let redis: OwnRedis;
let store: RedisConnection;

beforeAll(async () => {
  [database, redis] = await Promise.all([migratedDatabase('celery_shared'), startRedis()]);
  store = await RedisConnection.open({ url: redis.url, role: 'ledger', name: 'shared' });
});

afterAll(async () => {
  store.close();
  await redis.dispose();
  await database.dispose();
});

const BROKERS = [
  { name: 'RabbitMQ', ours: () => rabbitmqUrl(), python: () => rabbitmqUrl().replace(/\/$/, '//') },
  { name: 'Redis', ours: () => redis.url, python: () => redis.url },
] as const;

const targetOf = (broker: string): CeleryTarget => ({
  broker,
  backend: redis.url.replace(/0$/, '1'),
  store: redis.url,
});

describe('an Outlast worker and a Celery worker on one queue', () => {
  it.each(BROKERS)(
    'run their own tasks, each once: $name',
    { timeout: LIMIT_MS },
    async ({ ours, python }) => {
      const [queue, key] = [unique('shared'), unique('tally')];
      const target = { ...targetOf(python()), isSharing: true };
      const resurrector = { unknownTaskTimeout: '1h' } as const;
      const outlast = createOutlast({ database: database.url, broker: ours(), resurrector });
      onTestFinished(() => outlast.close());
      const ran: string[] = [];
      const job = task(unique('ts.job'), { queue, input: unchecked<number>() });
      const handler = outlast.handler(job, (_, { id }) => void ran.push(id));
      const calls = Array.from({ length: EACH }, () => randomUUID());
      const worker = await startCeleryWorker(target, [queue]);
      onTestFinished(() => endProcess(worker));
      const services = [
        await startRelay(outlast),
        await startResurrector(outlast, { interval: '100ms' }),
        await startWorker(outlast, { tasks: [handler], queues: [queue, `${queue}.ts`] }),
      ];
      onTestFinished(async () => void (await Promise.all(services.map(one => one.stop()))));
      const sent: string[] = [];
      const sending = sendFromPython(
        target,
        calls.map(id => ({
          name: 'interop.tally',
          args: [key],
          options: { queue, task_id: id, retries: RETRIES },
        })),
      );
      for (let n = 0; n < EACH; n += 1) sent.push((await outlast.push(job, n)).id);
      await sending;
      const tally = async (): Promise<string[]> =>
        ((await store.command('lrange', key, 0, -1)) as readonly Buffer[]).map(String);
      await until(async () => ran.length >= EACH && (await tally()).length >= EACH);
      expect(ran.toSorted()).toEqual(sent.toSorted());
      // The number of retries is one of its headers.
      expect((await tally()).toSorted()).toEqual(calls.map(id => `${id} ${RETRIES}`).toSorted());
      expect((await createAdmin(outlast).deadLetters.list()).items).toEqual([]);
    },
  );
});

describe('an unmodified Celery worker', () => {
  it.each(BROKERS)('discards a task that it does not know: $name', async ({ ours, python }) => {
    const queue = unique('thrown');
    const target = targetOf(python());
    const worker = await startCeleryWorker(target, [queue]);
    onTestFinished(() => endProcess(worker));
    const outlast = createOutlast({ database: database.url, broker: ours() });
    onTestFinished(() => outlast.close());
    const sent = await outlast.push(task('ts.unknown', { queue, input: unchecked<number>() }), 1);
    const backend = await RedisConnection.open({
      url: target.backend,
      role: 'ledger',
      name: 'backend',
    });
    onTestFinished(() => backend.close());
    const meta = JSON.parse(await celeryMeta(backend, sent.id)) as object;
    expect(meta).toMatchObject({ status: 'FAILURE', result: { exc_type: 'NotRegistered' } });
  });
});
