import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { PgDatabase } from '../../dist/adapters/postgres/pg-database.js';
import { PostgresCheckup } from '../../dist/adapters/postgres/postgres-checkup.js';
import { CHECK_LIMITS, type Check } from '../../dist/telemetry/checkup.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createAdmin } from '../../dist/admin/index.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json } from '../support/cli-project.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { relayedOutlast, type RelayedOutlast } from '../support/relayed-outlast.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('control');
});
afterAll(() => database.dispose());

describe.each([
  ['in the database', () => ({})],
  ['on RabbitMQ', () => ({ broker: rabbitmqUrl() })],
  ['on Redis, the ledger too', () => ({ broker: redisUrl() })],
])('a queue %s', (_, broker) => {
  let outlast: Outlast<PoolClient>;
  let relayed: RelayedOutlast;

  beforeAll(async () => {
    relayed = await relayedOutlast(database, broker());
    outlast = relayed.outlast;
  });
  afterAll(() => relayed.dispose());

  it('that is paused delivers nothing, even after a restart, while running tasks finish; then it continues', async () => {
    const admin = createAdmin(outlast);
    const queue = unique('queue');
    const { broker: url } = broker() as { readonly broker?: string };
    const isRabbit = url?.startsWith('amqp') ?? false;
    const work = task(unique('work'), {
      queue,
      input: unchecked<string>(),
      result: unchecked<string>(),
    });
    const [begun, end] = [gate(), gate()];
    const ran: string[] = [];
    const handler = outlast.handler(work, async what => {
      ran.push(what);
      if (what !== 'first') return what;
      begun.open();
      await end.opened;
      return what;
    });
    const start = () => startWorker(outlast, { tasks: [handler], queues: [queue] });
    const send = (what: string) => outlast.transaction(tx => outlast.send(tx, work, what));
    const figures = async () => (await admin.queues.list()).find(row => row.queue === queue);

    let worker = await start();
    const first = await send('first');
    await begun.opened;
    expect(await admin.queues.pause(queue)).toBe(true);
    if (isRabbit) {
      // RabbitMQ pushes as long as there is a consumer: the queue is paused when there is none.
      const rabbit = await RabbitInspector.connect();
      await until(async () => (await rabbit.consumers(queue)) === 0);
      await rabbit.close();
    }
    end.open();
    expect(await first.result()).toBe('first');
    await worker.stop();
    worker = await start();
    await until(async () => (await figures())?.consumers === 1);
    const second = await send('second');
    const third = await send('third');
    if (url === undefined) await until(async () => (await figures())?.waiting === 2);
    else await until(async () => (await admin.stats()).queueDepth === 0);
    expect(ran).toEqual(['first']);
    expect((await admin.stats()).queues).toContainEqual(
      expect.objectContaining({ queue, isPaused: true }),
    );
    expect(await admin.queues.resume(queue)).toBe(true);
    expect(await Promise.all([second.result(), third.result()])).toEqual(['second', 'third']);
    expect((await figures())?.isPaused).toBe(false);
    await worker.stop();
  });

  it('is left by a worker that is asked to drain, and the others continue', async () => {
    const admin = createAdmin(outlast);
    const queue = unique('queue');
    const work = task(unique('work'), {
      queue,
      input: unchecked<number>(),
      result: unchecked<number>(),
    });
    const options = { tasks: [outlast.handler(work, value => value)], queues: [queue] };
    const workers = [await startWorker(outlast, options), await startWorker(outlast, options)];
    const mine = await until(async () => {
      const found = (await admin.workers.list()).filter(({ queues }) => queues.includes(queue));
      return found.length === 2 && found;
    });
    expect(await admin.workers.drain(mine[0]?.worker ?? '')).toBe(true);
    await Promise.race(workers.map(({ finished }) => finished));
    await until(async () => {
      const left = (await admin.workers.list()).filter(({ queues }) => queues.includes(queue));
      return left.length === 1;
    });
    const sent = await outlast.transaction(tx => outlast.send(tx, work, 7));
    expect(await sent.result()).toBe(7);
    await Promise.all(workers.map(worker => worker.stop()));
  });
});

describe('a queue without a worker', () => {
  const queuesCheck = async (): Promise<readonly Check[]> => {
    const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
    const checkup = new PostgresCheckup(db, { isEmbedded: false, nowMs: Date.now });
    const checks = await checkup.run({ ...CHECK_LIMITS, maxOrphanMs: 0 });
    await db.close();
    return checks.filter(({ name }) => name === 'queues');
  };

  it('is a problem for the doctor and shown in the stats, unless it is paused', async () => {
    const outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
    const queue = unique('forgotten');
    const work = task(unique('work'), { queue });
    await outlast.transaction(tx => outlast.send(tx, work));
    const relay = await startRelay(outlast);
    const admin = createAdmin(outlast);
    const row = await until(async () =>
      (await admin.stats()).queues.find(found => found.queue === queue && found.waiting === 1),
    );
    expect(row).toMatchObject({ waiting: 1, consumers: 0, isPaused: false });
    expect(await queuesCheck()).toMatchObject([
      { status: 'problem', details: { queue, waiting: 1 } },
    ]);
    await admin.queues.pause(queue);
    expect(await queuesCheck()).toMatchObject([{ status: 'advice', details: { queue } }]);
    await relay.stop();
    await outlast.close();
  });
});

describe('the command line', () => {
  it('lists, pauses and resumes queues, and reports an unknown worker', async () => {
    const project = new CliProject({}, { OUTLAST_DATABASE_URL: database.url });
    const queue = unique('by-hand');
    const paused = await project.run('queues', 'pause', queue, '--json');
    expect(json(paused.stdout)).toEqual({ queue, is_paused: true, has_changed: true });
    const list = json<{ readonly items: readonly object[] }>(
      (await project.run('queues', 'list', '--json')).stdout,
    );
    expect(list.items).toContainEqual({
      queue,
      pending: 0,
      waiting: 0,
      running: 0,
      is_paused: true,
      consumers: 0,
    });
    expect((await project.run('queues', 'resume', queue)).stdout).toBe(
      `${queue} is not paused now\n`,
    );
    expect((await project.run('queues', 'pause', 'no spaces')).code).toBe(2);
    expect((await project.run('workers', 'drain', 'nobody')).code).toBe(3);
    expect(json((await project.run('workers', 'list', '--json')).stdout)).toEqual({ items: [] });
    await project.dispose();
  });
});
