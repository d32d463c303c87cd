import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { PoolClient } from 'pg';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
  type TaskHandle,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { generationOf } from '../../src/ledger/generation-store.ts';
import { unique } from '../conformance/envelopes.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { redisWithLateReplica, redisWithTornFile } from '../support/redis-loss.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis } from '../support/redis-server.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('redis_losses');
  await database.pool.query('create table effect (task_id text not null, fence bigint not null)');
});

afterAll(async () => {
  await database.dispose();
});

const shape = { input: unchecked<unknown>(), result: unchecked<number>() };

/** Here a row that spends one retry becomes a dead letter. */
async function connect(broker: string): Promise<Outlast<PoolClient>> {
  const outlast = createOutlast({
    database: database.url,
    broker,
    adapter: fromPg(database.pool),
    relay: { maxRetries: 1, backoffTime: '1ms', brokerOutageCooldown: '1s', idleTime: '50ms' },
  });
  onTestFinished(() => outlast.close());
  const services = [await startRelay(outlast), await startResurrector(outlast)];
  onTestFinished(async () => void (await Promise.all(services.map(service => service.stop()))));
  return outlast;
}

async function work(outlast: Outlast<PoolClient>, queue: string, tasks: readonly Handler[]) {
  const worker = await startWorker(outlast, { tasks, queues: [queue] });
  onTestFinished(() => worker.stop());
}

/** Tasks of these ids are in the queues of Redis and no longer in the outbox. */
async function sendAll(
  outlast: Outlast<PoolClient>,
  queue: string,
  ids: readonly string[],
): Promise<void> {
  const one = task('lost.held', shape);
  const calls = ids.map(id => one.with(null, { id, queue }));
  const handles = await outlast.transaction(tx => outlast.sendMany(tx, calls));
  for (const handle of handles) await until(async () => (await handle.state()) !== 'pending');
}

const effectsOf = async (id: string): Promise<number> =>
  (await database.pool.query('select 1 from effect where task_id = $1', [id])).rowCount ?? 0;

/** The retries that rows have spent, once the relay has claimed one of them and released it. */
const spentBy = async (ids: readonly string[]): Promise<readonly number[] | false> => {
  const text = `select retries, claims > 0 and state = 'pending' as tried from outlast_outbox where task_id = any($1)`;
  const { rows } = await database.pool.query<{ retries: number; tried: boolean }>(text, [ids]);
  return rows.some(({ tried }) => tried) && rows.map(({ retries }) => retries);
};

describe.each([
  ['the end of its append-only file', redisWithTornFile],
  ['its primary before the replica had everything', redisWithLateReplica],
])('a Redis that loses %s', (_what, open) => {
  it('loses only tasks that waited there; runs come back under higher fences, and no effect happens twice', async () => {
    const redis = await open();
    const outlast = await connect(redis.url);
    const name = (what: string): string => unique(what);
    const [running, begun, ended, unseen] = ['running', 'begun', 'ended', 'unseen'].map(name) as [
      string,
      string,
      string,
      string,
    ];
    const [kept, lost, late] = ['kept', 'lost', 'late'].map(what =>
      Array.from({ length: 3 }, () => name(what)),
    ) as [string[], string[], string[]];
    const [here, there, later] = ['here', 'there', 'later'].map(name) as [string, string, string];
    const gates = new Map([running, begun, unseen].map(id => [id, gate()]));
    const fences = new Map<string, number[]>();
    const runsOf = (id: string): readonly number[] => fences.get(id) ?? [];
    const handler = outlast.handler(task('lost.held', shape), async (_, ctx) => {
      fences.set(ctx.id, [...runsOf(ctx.id), ctx.fence]);
      if (runsOf(ctx.id).length === 1) await gates.get(ctx.id)?.opened;
      await ctx.transaction(async tx => {
        await tx.query('insert into effect values ($1, $2)', [ctx.id, ctx.fence]);
      });
      return ctx.fence;
    });
    const find = (id: string): TaskHandle<number> => outlast.find(task('lost.held', shape), id);

    await work(outlast, here, [handler]);
    await sendAll(outlast, here, [running]);
    await until(async () => runsOf(running).length);
    await sendAll(outlast, there, [begun, ended]);
    await sendAll(outlast, later, kept);
    await redis.mark();
    await work(outlast, there, [handler]);
    await find(ended).result({ timeout: '60s' });
    await until(async () => runsOf(begun).length);
    await sendAll(outlast, here, [unseen]);
    await until(async () => runsOf(unseen).length);
    await sendAll(outlast, later, lost);
    await redis.forget(async () => {
      const calls = late.map(id => task('lost.held', shape).with(null, { id, queue: later }));
      await outlast.transaction(tx => outlast.sendMany(tx, calls));
      expect(await until(() => spentBy(late))).toEqual([0, 0, 0]);
    });

    // The lost runs are begun again; only then do the old runs try to end.
    for (const id of [begun, ended, unseen]) await until(async () => runsOf(id).length > 1);
    for (const one of gates.values()) one.open();
    await work(outlast, later, [handler]);
    const back = [running, begun, ended, unseen, ...kept, ...late];
    for (const id of back) {
      expect(await find(id).result({ timeout: '60s' })).toBe(runsOf(id).at(-1));
      expect([id, await effectsOf(id)]).toEqual([id, 1]);
    }
    const { tasks } = await until(async () => {
      const stats = await createAdmin(outlast).stats();
      return stats.tasks.running === 0 && stats;
    });
    expect(tasks).toMatchObject({ waiting: 0, dead: 0 });
    for (const id of [begun, ended, unseen]) {
      const [first = 0, second = 0] = runsOf(id);
      expect(generationOf(second)).toBeGreaterThan(generationOf(first));
    }
    // Counted: exactly the tasks that were only in Redis.
    const gone = [...back, ...lost].filter(id => runsOf(id).length === 0);
    expect(gone).toEqual(lost);
  });
});

describe('a Redis whose memory is full', () => {
  it('lets all existing tasks end, and takes the rest when it has memory again; no row spends a retry', async () => {
    const server = await startRedis(['--maxmemory-policy', 'noeviction', '--appendonly', 'yes']);
    onTestFinished(() => server.dispose());
    const outlast = await connect(server.url);
    const tell = (...words: readonly (string | number)[]): Promise<unknown> =>
      withRedis(server.url, redis => redis.command(words[0] as string, ...words.slice(1)));
    const [queue, later] = [unique('queue'), unique('later')];
    const opened = gate();
    let held = 0;
    const hold = async (id: string): Promise<void> => {
      held += 1;
      await opened.opened;
      await database.pool.query('insert into effect values ($1, 0)', [id]);
    };
    const done = outlast.handler(task('full.done', { ...shape, queue }), async (_, ctx) => {
      if (ctx.queue === queue) await hold(ctx.id);
      return ctx.attempt;
    });
    const retried = outlast.handler(task('full.retried', { ...shape, queue }), {
      retry: { backoff: '10ms' },
      run: async (_, ctx) => {
        if (ctx.attempt > 1) return ctx.attempt;
        await hold(ctx.id);
        throw new Error('the first time');
      },
    });
    const dead = outlast.handler(task('full.dead', { ...shape, queue }), {
      retry: { maxAttempts: 1 },
      run: async (_, ctx) => {
        await hold(ctx.id);
        throw new RangeError('no good');
      },
    });
    await work(outlast, queue, [done, retried, dead]);
    const [one, two, three] = await outlast.transaction(tx =>
      outlast.sendMany(tx, [done.task.with(null), retried.task.with(null), dead.task.with(null)]),
    );
    const waiting = await outlast.transaction(tx =>
      outlast.send(tx, done.task, null, { queue: later }),
    );
    await until(async () => held === 3 && (await waiting.state()) !== 'pending');

    const used = /used_memory:(\d+)/.exec(String(await tell('info', 'memory')))?.[1];
    await tell('config', 'set', 'maxmemory', Math.floor(Number(used) / 2));
    await expect(tell('set', 'any', 'thing')).rejects.toThrow(/OOM/);
    opened.open();
    expect(await one?.result({ timeout: '60s' })).toBe(1);
    expect(await two?.result({ timeout: '60s' })).toBe(2);
    await expect(three?.result({ timeout: '60s' })).rejects.toMatchObject({
      code: 'ERR_TASK_FAILED',
    });
    await work(outlast, later, [done]);
    expect(await waiting.result({ timeout: '60s' })).toBe(1);

    const calls = Array.from({ length: 3 }, () => done.task.with(null, { queue: later }));
    const sent = await outlast.transaction(tx => outlast.sendMany(tx, calls));
    const ids = sent.map(({ id }) => id);
    expect(await until(() => spentBy(ids))).toEqual([0, 0, 0]);
    await tell('config', 'set', 'maxmemory', 0);
    expect(await Promise.all(sent.map(handle => handle.result({ timeout: '60s' })))).toEqual([
      1, 1, 1,
    ]);
    expect((await createAdmin(outlast).stats()).tasks).toMatchObject({ done: 6, dead: 1 });
  });
});
