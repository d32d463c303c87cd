import type { ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import type { PoolClient } from 'pg';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { callFromPython, endProcess, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';

/** The ledger is in PostgreSQL, and only Celery's Redis knows how many parts a chord of Python has. */
describe('chords that Python sends, counted in its own Redis', () => {
  const [python, ours] = [unique('python'), unique('ours')];
  let database: MigratedDatabase;
  let redis: OwnRedis;
  let target: CeleryTarget;
  let worker: ChildProcess;
  let outlast: Outlast<PoolClient>;
  const services: Service[] = [];

  const tsAdd = task('ts.add', {
    queue: ours,
    args: unchecked<number[]>(),
    result: unchecked<number>(),
  });

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('backend'), await startRedis()];
    target = { broker: rabbitmqUrl().replace(/\/$/, '//'), backend: redis.url };
    outlast = createOutlast({
      database: database.url,
      broker: rabbitmqUrl(),
      celery: { chordBackend: redis.url },
      adapter: fromPg(database.pool),
    });
    const tasks = [
      outlast.handler(tsAdd, ({ args }) => args.reduce((one, other) => one + other, 0)),
    ];
    worker = await startCeleryWorker(target, [python]);
    services.push(
      await startResurrector(outlast),
      await startWorker(outlast, { tasks, queues: [ours], idleTime: '100ms' }),
    );
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await endProcess(worker);
    const rabbit = await RabbitInspector.connect();
    for (const queue of [python, ours]) await rabbit.delete(queue);
    await rabbit.close();
    await redis.dispose();
    await database.dispose();
  });

  const mine = (...args: number[]) => ({ name: 'ts.add', args, options: { queue: ours } });
  const its = (...args: number[]) => ({ name: 'interop.add', args, options: { queue: python } });
  const total = { name: 'interop.total', options: { queue: python } };

  it('complete with parts of ours alone, of both, and with chains and groups as parts', async () => {
    const { outcomes } = await callFromPython(target, [
      { header: [mine(1, 1), mine(2, 2), mine(3, 3)], body: total },
      { header: [mine(1, 1), its(2, 2), mine(3, 3), its(4, 4)], body: total },
      { header: [{ chain: [mine(1, 1), mine(5)] }, mine(2, 2)], body: total },
      { chain: [{ group: [mine(1, 1), mine(2, 2)] }, total] },
      { header: [mine(7, 1)], body: total },
    ]);
    const values = (await outcomes).map(({ value }) => value);
    expect(values).toEqual([12, 20, 11, 6, 8]);
  });
});
