import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  chord,
  createOutlast,
  runOnce,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import type { TaskView } from '../../src/dev/view.ts';
import { generationOf } from '../../src/ledger/generation-store.ts';
import { redisEvacuation } from '../../src/adapters/redis/redis-evacuation.ts';
import { rankBy } from '../../src/adapters/redis/redis-keys.ts';
import { RedisControlStore } from '../../src/adapters/redis/redis-control-store.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { LedgerDriver } from '../conformance/ledger-driver.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { DevProcess } from '../support/dev-process.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { redisUrl } from '../support/servers.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('redis_tier');
});

afterAll(async () => {
  await database.dispose();
});

async function own(args: readonly string[] = []): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

function connect(broker: string): Outlast {
  const outlast = createOutlast({ database: database.url, broker });
  onTestFinished(() => outlast.close());
  return outlast;
}

const makeTask = (queue = unique('queue')) =>
  task(unique('task'), { queue, input: unchecked<unknown>(), result: unchecked<unknown>() });

/** Relay and worker in this process, until the test ends. */
async function serve(outlast: Outlast, tasks: readonly Handler[]): Promise<void> {
  const queues = [...new Set(tasks.map(handler => handler.task.contract.queue))];
  const services = [await startRelay(outlast), await startWorker(outlast, { tasks, queues })];
  onTestFinished(async () => {
    await Promise.all(services.map(service => service.stop()));
  });
}

describe('a task that is cancelled while it waits in the outbox', () => {
  it.each([
    ['through its handle', (outlast: Outlast, id: string) => outlast.find(makeTask(), id).cancel()],
    ['by an operator', (outlast: Outlast, id: string) => createAdmin(outlast).tasks.cancel(id)],
  ])('%s is never published, however late it is due', async (_, cancel) => {
    const outlast = connect((await own()).url);
    const later = makeTask();
    const options = { countdown: '30d' } as const;
    const sent = await outlast.transaction(tx => outlast.send(tx, later, 1, options));
    await cancel(outlast, sent.id);
    const { rowCount } = await database.pool.query(
      'select 1 from outlast_outbox where task_id = $1',
      [sent.id],
    );
    expect(rowCount).toBe(0);
    expect(await sent.state()).toBe('cancelled');
  });

  it('fails its chord, although its row is deleted and never published', async () => {
    const outlast = connect((await own()).url);
    const [part, whole, alarm] = [makeTask(), makeTask(), makeTask()];
    const alarmed = gate<unknown>();
    const [id, bodyId] = [unique('part'), unique('body')];
    const later = part.with(1, { id, countdown: '30d' });
    const body = whole.after(undefined, { id: bodyId, linkError: alarm });
    await outlast.transaction(tx => outlast.sendMany(tx, [chord([part.with(2), later], body)]));
    await outlast.find(part, id).cancel();
    const text = 'select 1 from outlast_outbox where task_id = $1';
    expect((await database.pool.query(text, [id])).rowCount).toBe(0);
    await serve(outlast, [
      outlast.handler(part, input => input),
      outlast.handler(alarm, failed => alarmed.open(failed)),
    ]);
    await using resurrector = await startResurrector(outlast);
    expect(await alarmed.opened).toBe(bodyId);
    await resurrector.stop();
  });
});

describe('a Redis that loses all its data', () => {
  it.each([
    [
      'its data',
      async (redis: OwnRedis) => {
        await withRedis(redis.url, connection => connection.command('flushall'));
      },
    ],
    [
      'its process',
      async (redis: OwnRedis) => {
        await redis.stop('SIGKILL');
        await redis.start();
      },
    ],
  ])('gets the running tasks back from the worker when it loses %s', async (_, lose) => {
    const redis = await own();
    const outlast = connect(redis.url);
    const echo = makeTask();
    const fences: number[] = [];
    const opened = gate();
    const handler = outlast.handler(echo, async (input, ctx) => {
      fences.push(ctx.fence);
      if (fences.length === 1) await opened.opened;
      return input;
    });
    await serve(outlast, [handler]);
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 'kept'));
    await until(async () => fences.length);
    await lose(redis);
    // The first run ends when the worker has noticed that it lost the task; its result is dropped.
    await until(async () => fences.length > 1);
    opened.open();
    expect(await sent.result({ timeout: '30s' })).toBe('kept');
    const [first = 0, second = 0] = fences;
    expect(generationOf(second)).toBeGreaterThan(generationOf(first));
    expect(fences).toHaveLength(2);
    expect((await createAdmin(outlast).stats()).tasks).toMatchObject({ done: 1, running: 0 });
  });
});

describe('a Redis Cluster', () => {
  it('is broker and ledger for tasks of several queues', async () => {
    const cluster = await startRedisCluster(['--appendonly', 'yes']);
    onTestFinished(() => cluster.dispose());
    const outlast = connect(cluster.url);
    const tasks = [makeTask(), makeTask(), makeTask()];
    const broken = makeTask();
    const handlers = tasks.map(one => outlast.handler(one, input => ({ input })));
    const retry = { maxAttempts: 1 };
    const run = (): never => {
      throw new RangeError('broken');
    };
    await serve(outlast, [...handlers, outlast.handler(broken, { retry, run })]);
    const calls = Array.from({ length: 10 }, (_, index) =>
      tasks.map(one => one.with(index)),
    ).flat();
    const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    const dead = await outlast.transaction(tx => outlast.send(tx, broken, 1));
    const results = sent.map(handle => handle.result({ timeout: '60s' }));
    expect(await Promise.all(results)).toEqual(calls.map(({ input }) => ({ input })));
    await expect(dead.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
    });
    const { tasks: counts, workers } = await createAdmin(outlast).stats();
    expect({ ...counts, workers }).toMatchObject({ done: 30, dead: 1, workers: 1 });
  });
});

describe('runOnce on Redis', () => {
  it('relays and runs the tasks that are there, and returns', async () => {
    const outlast = createOutlast({
      database: database.url,
      broker: redisUrl(),
      worker: { queues: ['once'] },
    });
    onTestFinished(() => outlast.close());
    const echo = makeTask('once');
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, 'once'));
    await runOnce(outlast, { tasks: [outlast.handler(echo, input => input)], maxTime: '20s' });
    expect(await sent.state()).toBe('done');
  });
});

describe('outlast dev on Redis', () => {
  it('shows the progress of a task that runs in its own process, and brings it back', async () => {
    const redis = await own(['--appendonly', 'yes']);
    const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject(DEV_PROJECT, env);
    onTestFinished(() => project.dispose());
    const dev = await DevProcess.start(project.folder, { env });
    onTestFinished(() => dev.stop());
    expect(await project.run('send', 'dev.steps', '--id', 'steps')).toMatchObject({ code: 0 });
    const progress = { kind: 'steps', step: 1, of: 2, label: 'half' };
    const atHalf = ({ progress: seen }: TaskView): boolean =>
      JSON.stringify(seen) === JSON.stringify(progress);
    await dev.untilTask('steps', 'at half', view => atHalf(view) && view.state === 'running');
    expect((await dev.state()).workers).toMatchObject([{ running: 1 }]);
    expect(await dev.post('/api/workers/kill', {})).toMatchObject({ status: 200 });
    await dev.untilTask('steps', 'running again', view => view.crashes === 1 && view.epoch > 1);
    project.write('open', '');
    await dev.untilTask('steps', 'done', view => view.state === 'done');
  });
});

const DEV_PROJECT = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'] });`,
  'handlers.mjs': `
    import { existsSync } from 'node:fs';
    import { createOutlast, task, unchecked } from 'outlast';
    import config from './outlast.config.mjs';
    const outlast = createOutlast(config);
    export const steps = outlast.handler(task('dev.steps', { input: unchecked() }), {
      mode: 'process',
      run: async (input, ctx) => {
        await ctx.checkpoint({ step: 1, of: 2, label: 'half' });
        while (!existsSync('open')) await new Promise(resolve => setTimeout(resolve, 20));
      },
    });`,
};

describe('a worker on a Redis that evicts keys', () => {
  it('is refused, and the error names the setting', async () => {
    const redis = await own(['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru']);
    const outlast = connect(redis.url);
    const tasks = [outlast.handler(task(unique('never')), () => undefined)];
    await expect(startWorker(outlast, { tasks })).rejects.toMatchObject({
      code: 'ERR_CONFIG_TIER',
      message: expect.stringContaining('allkeys-lru') as string,
      option: 'ledger',
    });
  });

  it('is reported by the doctor, as is the missing recovery of lost workers', async () => {
    const redis = await own(['--maxmemory', '50mb', '--maxmemory-policy', 'volatile-ttl']);
    await withRedis(redis.url, connection =>
      connection.command('zadd', 'outlast:ledger:leases', 1, 'lost'),
    );
    const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject({}, env);
    onTestFinished(() => project.dispose());
    const { code, stdout } = await project.run('doctor');
    expect(code).toBe(6);
    expect(stdout).toMatch(/^problem +ledger memory: .*volatile-ttl/m);
    expect(stdout).toMatch(/^problem +ledger recovery: 1 /m);
    expect(stdout).toMatch(/^ok +ledger queues: /m);
    expect(stdout).toMatch(/^ok +ledger chords: /m);
  });
});

describe('a Redis that is nearly full', () => {
  it('is reported by the doctor: nothing new is admitted', async () => {
    const redis = await own(['--maxmemory-policy', 'noeviction']);
    const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject({}, env);
    onTestFinished(() => project.dispose());
    expect((await project.run('doctor')).stdout).toMatch(/^ok +ledger room: /m);
    await withRedis(redis.url, async connection => {
      const used = /used_memory:(\d+)/.exec(
        String(await connection.command('info', 'memory')),
      )?.[1];
      const limit = Math.floor(Number(used) * 1.1);
      await connection.command('config', 'set', 'maxmemory', limit);
    });
    const { code, stdout } = await project.run('doctor');
    expect(code).toBe(6);
    expect(stdout).toMatch(/^problem +ledger room: \d+ % of the maxmemory/m);
  });
});

describe('a ledger beside a broker that takes priority 0 first', () => {
  it('hands out in that order, whichever way a task came in, and the number stays as it was', async () => {
    const fixture = await openTestLedger(redisUrl(), { isZeroFirst: true });
    onTestFinished(() => fixture.dispose());
    const driver = new LedgerDriver(fixture);
    const queue = unique('queue');
    const ranked = (priorities: readonly number[]) =>
      priorities.map(priority => makeEnvelope({ queue, priority }));
    await driver.put(...ranked([9, 0, 4]));
    const { worker } = await driver.open();
    const { begun } = await driver.begin(worker, { messages: ranked([7, 1]) });
    for (const run of begun) await driver.release(run, 0);
    const roots = async (): Promise<readonly string[]> => [fixture.root];
    const left = await redisEvacuation(fixture.connection, roots, rankBy(true)).list(9);
    expect(new Set(left.map(({ envelope }) => envelope.priority))).toEqual(
      new Set([0, 1, 4, 7, 9]),
    );
    const again = (await driver.begin(worker, { queues: [queue], limit: 5 })).begun;
    expect(again.map(({ envelope }) => envelope.priority)).toEqual([0, 1, 4, 7, 9]);
    const publish = makeEnvelope({ queue, priority: 3 });
    await driver.commit(again[0] as (typeof again)[number], {
      after: [{ key: unique('key'), publish }],
    });
    const [entry] = await driver.ledger.after.list(0, 1);
    expect(entry).toMatchObject({ publish: { id: publish.id, priority: 3 } });
  });
});

describe('a queue without a worker', () => {
  it('is reported by the doctor, whether the ledger or the broker has its tasks', async () => {
    const redis = await own();
    const outlast = connect(redis.url);
    const opened = await openTestLedger(redis.url, { root: 'outlast:ledger:' });
    onTestFinished(() => opened.dispose());
    const { ledger, connection } = opened;
    const waiting = (queue: string, delayMs: number, priority = 0) => ({
      envelope: makeEnvelope({ queue, priority }),
      delayMs,
    });
    await ledger.park([waiting('left', 0), waiting('left', 0, 9), waiting('left', 3_600_000)]);
    await ledger.park([waiting('paused', 0), waiting('served', 0)]);
    await createAdmin(outlast).queues.pause('paused');
    const report = { worker: 'w', process: 'p', host: 'h', pid: 1, leaseMs: 60_000, running: 0 };
    const control = new RedisControlStore(connection, 'outlast:ledger:control:');
    await control.look({ ...report, queues: ['served', 'read'] });
    for (const queue of ['typo', 'read']) await outlast.push(makeTask(queue), {});
    const env = { OUTLAST_DATABASE_URL: database.url, OUTLAST_BROKER_URL: redis.url };
    const project = new CliProject({}, env);
    onTestFinished(() => project.dispose());
    const { code, stdout } = await project.run('doctor', '--json', '--max-orphan-age', '0s');
    const { checks } = json<{ checks: { name: string; status: string; details: object }[] }>(
      stdout,
    );
    const found = checks.filter(({ name, details }) => name === 'queues' && 'queue' in details);
    expect([code, found.map(({ status, details }) => ({ status, ...details }))]).toEqual([
      6,
      [
        { status: 'problem', queue: 'left', waiting: 2 },
        { status: 'advice', queue: 'paused', waiting: 1 },
        { status: 'advice', queue: 'typo', messages: 1 },
      ],
    ]);
  });
});
