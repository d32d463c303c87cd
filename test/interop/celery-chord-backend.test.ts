import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAdmin } from '../../dist/admin/index.js';
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
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unique } from '../conformance/envelopes.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { faultEnv } from '../support/fault-env.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';
import { callFromPython, endProcess, startCeleryWorker, type CeleryTarget } from './celery-kit.ts';

/** The ledger is in PostgreSQL, and only Celery's Redis knows how many parts a chord of Python has. */
describe('chords that Python sends, counted in its own Redis', () => {
  const [python, ours, apart] = [unique('python'), unique('ours'), unique('apart')];
  const dying = unique('dying');
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

  const tsTotal = task('ts.total', {
    queue: ours,
    input: unchecked<number[]>(),
    result: unchecked<number>(),
  });
  const tsFail = task('ts.fail', { queue: ours, args: unchecked<number[]>() });
  const sum = (list: readonly number[]): number => list.reduce((one, other) => one + other, 0);
  const handlersOf = (of: Outlast<PoolClient>) => [
    of.handler(tsAdd, ({ args }) => sum(args)),
    of.handler(tsTotal, list => sum(list)),
    of.handler(tsFail, {
      retry: { maxAttempts: 1 },
      run: () => {
        throw new RangeError('no funds');
      },
    }),
  ];

  beforeAll(async () => {
    [database, redis] = [await migratedDatabase('backend'), await startRedis()];
    target = { broker: rabbitmqUrl().replace(/\/$/, '//'), backend: redis.url };
    outlast = createOutlast({
      database: database.url,
      broker: rabbitmqUrl(),
      celery: { chordBackend: redis.url },
      adapter: fromPg(database.pool),
    });
    const tasks = handlersOf(outlast);
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
    for (const queue of [python, ours, apart, dying]) await rabbit.delete(queue);
    await rabbit.close();
    await redis.dispose();
    await database.dispose();
  });

  const mine = (...args: number[]) => ({ name: 'ts.add', args, options: { queue: ours } });
  const its = (...args: number[]) => ({ name: 'interop.add', args, options: { queue: python } });
  /** How often Python has run a body with this key. */
  const recorded = async (key: string): Promise<number> => {
    const store = await RedisConnection.open({ url: redis.url, role: 'ledger', name: 'recorded' });
    const count = Number(await store.command('llen', key));
    store.close();
    return count;
  };
  const total = { name: 'interop.total', options: { queue: python } };

  it('complete with parts of ours alone, of both, and with chains and groups as parts', async () => {
    const { outcomes } = await callFromPython(target, [
      { header: [mine(1, 1), mine(2, 2), mine(3, 3)], body: total },
      { header: [mine(1, 1), its(2, 2), mine(3, 3), its(4, 4)], body: total },
      { header: [{ chain: [mine(1, 1), mine(5)] }, mine(2, 2)], body: total },
      { chain: [{ group: [mine(1, 1), mine(2, 2)] }, total] },
      { header: [mine(7, 1)], body: total },
      // A chain that ends in a group is one part of the header, with a list of its own.
      {
        header: [{ chain: [mine(1, 1), { group: [mine(1), its(2)] }] }, its(5, 5)],
        body: { name: 'interop.same', options: { queue: python } },
      },
    ]);
    const values = (await outcomes).map(({ value }) => value);
    expect(values).toEqual([12, 20, 11, 6, 8, [[3, 4], 10]]);
  });

  it('give Python our results and errors there, of chords and of plain tasks', async () => {
    const failing = { name: 'ts.fail', options: { queue: ours } };
    const body = { name: 'ts.total', options: { queue: ours } };
    const { outcomes } = await callFromPython(target, [
      mine(1, 1),
      { header: [mine(1, 1), mine(2, 2)], body },
      { chain: [mine(1, 1), mine(5)] },
      failing,
      { header: [mine(1, 1), failing], body: total },
      { chain: [failing, its(1)] },
    ]);
    const told = (await outcomes).map(({ value, type }) => value ?? type);
    expect(told).toEqual([2, 6, 7, 'RangeError', 'RangeError', 'RangeError']);
  });

  it('complete where our worker sends the header of a later step, to one language or to both', async () => {
    const sums = { name: 'ts.total', options: { queue: ours } };
    const body = { name: 'interop.record', args: ['linked'], immutable: true };
    const inner = { chain: [mine(1), { group: [mine(1), its(1)] }, sums] };
    const { outcomes } = await callFromPython(target, [
      { chain: [mine(1, 1), { group: [its(1), its(2)] }, sums] },
      {
        chain: [
          mine(1, 1),
          { group: [mine(1), its(2)] },
          sums,
          { group: [mine(1), its(2)] },
          total,
        ],
      },
      { chain: [mine(1, 1), { group: [inner, its(2)] }, total] },
      {
        ...mine(1, 1),
        link: [{ header: [mine(1), its(2)], body: { ...body, options: { queue: python } } }],
      },
    ]);
    expect((await outcomes).map(({ value }) => value)).toEqual([7, 17, 12, 2]);
    await until(async () => (await recorded('linked')) === 1);
  });

  it('have one body when the worker that sends such a header is killed before', async () => {
    const project = new CliProject(
      {
        'outlast.config.mjs': `export default {
          tasks: ['./handlers.mjs'],
          broker: { url: '${rabbitmqUrl()}' },
          celery: { chordBackend: '${redis.url}' },
          worker: { queues: ['${dying}'], processes: 1, lease: '2s', beat: '300ms' },
        };`,
        'handlers.mjs': `import { createOutlast, task, unchecked } from 'outlast';
          import config from './outlast.config.mjs';
          const add = task('dying.add', { queue: '${dying}', args: unchecked(), result: unchecked() });
          export const handler = createOutlast(config).handler(add, ({ args: [a, b] }) => a + b);`,
      },
      { OUTLAST_DATABASE_URL: database.url },
    );
    try {
      const hit = join(project.folder, 'hit');
      project.start(['worker'], faultEnv(`worker.committed-not-followed:kill:1:${hit}`));
      const here = (...args: number[]) => ({ name: 'dying.add', args, options: { queue: dying } });
      const body = { name: 'interop.record', args: ['killed'], options: { queue: python } };
      const { outcomes } = await callFromPython(target, [
        { chain: [here(1, 1), { group: [its(1), here(2)] }, { ...body, immutable: true }] },
      ]);
      expect(await outcomes).toMatchObject([{ state: 'SUCCESS' }]);
      expect([existsSync(hit), await recorded('killed')]).toEqual([true, 1]);
    } finally {
      await project.dispose();
    }
  });

  it('complete here if a worker of an earlier version sent their headers, with the size', async () => {
    const options = { queue: python, task_id: unique('body') };
    const body = {
      task: 'interop.record',
      args: ['earlier'],
      kwargs: {},
      immutable: true,
      options,
    };
    const embed = {
      callbacks: null,
      errbacks: null,
      chain: null,
      chord: { ...body, chord_size: 2 },
    };
    const rabbit = await RabbitInspector.connect();
    const group = unique('earlier');
    await rabbit.with(async channel => {
      for (const index of [0, 1]) {
        const headers = {
          lang: 'js',
          task: 'ts.add',
          id: unique('part'),
          group,
          group_index: index,
        };
        const properties = { contentType: 'application/json', contentEncoding: 'utf-8', headers };
        const content = Buffer.from(JSON.stringify([[1, index], {}, embed]));
        await Promise.resolve(channel.sendToQueue(ours, content, properties));
      }
    });
    await rabbit.close();
    await until(async () => (await recorded('earlier')) === 1);
  });

  it('do not run without it, and complete when their dead letters are retried with it', async () => {
    const blind = createOutlast({
      database: database.url,
      broker: rabbitmqUrl(),
      adapter: fromPg(database.pool),
    });
    const take = (of: Outlast<PoolClient>) =>
      startWorker(of, { tasks: handlersOf(of), queues: [apart], idleTime: '100ms' });
    const service = await take(blind);
    const part = (...args: number[]) => ({ name: 'ts.add', args, options: { queue: apart } });
    const { ids, outcomes } = await callFromPython(target, [
      { header: [part(1, 1), { chain: [part(2, 2), part(5)] }], body: total },
    ]);
    const { deadLetters } = createAdmin(blind);
    const letters = await until(async () => {
      const { items: found } = await deadLetters.list({ limit: 100 });
      const uncounted = found.filter(({ reason }) => reason === 'ERR_CHORD_UNCOUNTED');
      const ofBody = found.filter(({ id }) => id === `${ids[0]}#chord`);
      return uncounted.length === 2 && ofBody.length === 1 && uncounted;
    });
    await service.stop();
    await blind.close();
    services.push(await take(outlast));
    for (const { id } of letters)
      expect(await createAdmin(outlast).deadLetters.retry(id)).toBe('ok');
    expect((await outcomes)[0]).toMatchObject({ state: 'SUCCESS', value: 11 });
  });
});
