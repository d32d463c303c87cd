import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';
import { rabbitmqUrl } from '../support/servers.ts';

let database: MigratedDatabase;
let rabbit: RabbitInspector;

beforeAll(async () => {
  database = await migratedDatabase('delivery-limit');
  rabbit = await RabbitInspector.connect();
});

afterAll(async () => {
  await rabbit.close();
  await database.dispose();
});

function connect(options: object): Outlast<PoolClient> {
  const outlast = createOutlast({
    database: database.url,
    adapter: fromPg(database.pool),
    broker: rabbitmqUrl(),
    ...options,
  });
  onTestFinished(() => outlast.close());
  return outlast;
}

/** A quorum queue that drops what came back twice, into another queue. */
async function limitedQueue(): Promise<{ readonly queue: string; readonly dropped: string }> {
  const [queue, dropped] = [unique('limited'), unique('dropped')];
  await rabbit.with(async channel => {
    await channel.assertQueue(dropped, { durable: true });
    await channel.assertQueue(queue, {
      durable: true,
      arguments: {
        'x-queue-type': 'quorum',
        'x-delivery-limit': 1,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': dropped,
      },
    });
  });
  return { queue, dropped };
}

/** As Celery's `apply_async` sends it, with a countdown or without. */
async function sendAsCelery(queue: string, name: string, etaMs: number | null): Promise<void> {
  await rabbit.with(async channel => {
    const id = randomUUID();
    const body = JSON.stringify([
      [],
      {},
      { callbacks: null, errbacks: null, chain: null, chord: null },
    ]);
    const eta = etaMs === null ? null : new Date(Date.now() + etaMs).toISOString();
    channel.sendToQueue(queue, Buffer.from(body), {
      persistent: true,
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      correlationId: id,
      headers: { lang: 'py', task: name, id, root_id: id, eta, retries: 0 },
    });
  });
}

async function memoryOf(redis: OwnRedis, full: boolean): Promise<void> {
  await withRedis(redis.url, async connection => {
    const used = /used_memory:(\d+)/.exec(String(await connection.command('info', 'memory')))?.[1];
    const most = full ? Math.floor(Number(used) / 2) : 0;
    await connection.command('config', 'set', 'maxmemory', most);
  });
}

/** How often the server has refused a command because it is full. */
const refusals = (redis: OwnRedis): Promise<number> =>
  withRedis(redis.url, async connection => {
    const stats = String(await connection.command('info', 'errorstats'));
    return Number(/errorstat_OOM:count=(\d+)/.exec(stats)?.[1] ?? 0);
  });

describe('a quorum queue with a delivery limit', () => {
  it.each([
    ['without an eta', null],
    ['with an eta', 1_500],
  ])('drops no task %s while the ledger is full, whichever process restarts', async (_, etaMs) => {
    const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
    onTestFinished(() => redis.dispose());
    const outlast = connect({ ledger: redis.url });
    const { queue, dropped } = await limitedQueue();
    const ran: string[] = [];
    const counted = task(unique('counted'), { queue });
    const handler = outlast.handler(counted, (_input, { id }) => void ran.push(id));
    const start = (): Promise<Service> =>
      startWorker(outlast, { tasks: [handler], queues: [queue], concurrency: 4 });
    const first = await start();
    await until(() => rabbit.consumers(queue));
    await memoryOf(redis, true);
    for (let n = 0; n < 12; n++) await sendAsCelery(queue, counted.name, etaMs);
    await until(async () => (await refusals(redis)) >= 4);
    // What the first worker held goes back once; the workers after it take nothing.
    await first.stop();
    for (let restarts = 0; restarts < 3; restarts++) {
      const before = await refusals(redis);
      const next = await start();
      await until(async () => (await refusals(redis)) > before);
      await next.stop();
    }
    const last = await start();
    onTestFinished(() => last.stop());
    await memoryOf(redis, false);
    await until(async () => (await rabbit.depth(dropped)) !== 0 || ran.length === 12);
    expect([new Set(ran).size, await rabbit.depth(dropped)]).toEqual([12, 0]);
  });
});

describe('a worker without a free slot', () => {
  it.each([
    ['of another queue', 'commit'],
    ['of the same queue, acknowledged at begin', 'begin'],
  ] as const)('holds no message %s that another worker could run', async (_, ackOn) => {
    const outlast = connect({ broker: { url: rabbitmqUrl(), ackOn } });
    const relay = await startRelay(outlast);
    onTestFinished(() => relay.stop());
    const queues = ackOn === 'commit' ? [unique('busy'), unique('other')] : [unique('busy')];
    const [busy = '', other = busy] = queues;
    const long = task(unique('long'), { queue: busy });
    const short = task(unique('short'), { queue: other, input: unchecked<number>() });
    const [begun, end] = [gate(), gate()];
    const ran: number[] = [];
    const tasks = [
      outlast.handler(long, () => {
        begun.open();
        return end.opened;
      }),
      outlast.handler(short, n => void ran.push(n)),
    ];
    const full = await startWorker(outlast, { tasks, queues, concurrency: 1 });
    onTestFinished(() => full.stop());
    onTestFinished(() => end.open());
    await outlast.push(long);
    await begun.opened;
    // These go to the full worker, because it is the only one.
    for (let n = 0; n < 3; n++) await outlast.push(short, n);
    const idle = await startWorker(outlast, { tasks, queues, concurrency: 1 });
    onTestFinished(() => idle.stop());
    await until(async () => ran.length >= 3);
    await until(async () => ((await rabbit.consumers(other)) ?? 0) > 0);
    for (let n = 3; n < 6; n++) await outlast.push(short, n);
    await until(async () => ran.length >= 6);
    expect(new Set(ran).size).toBe(6);
  });
});
