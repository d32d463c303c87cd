import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { createAdmin } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  chain,
  createOutlast,
  discard,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
  type Service,
} from '../../dist/index.js';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';

interface Order {
  readonly order: string;
  readonly cents?: number;
}

describe.each(['PostgreSQL', 'Redis'] as const)('idempotent tasks, ledger in %s', tier => {
  let database: MigratedDatabase;
  let redis: OwnRedis | undefined;
  let outlast: Outlast<PoolClient>;
  let services: Service[];
  let count = 0;

  beforeAll(async () => {
    database = await migratedDatabase('idempotency');
    if (tier === 'Redis') redis = await startRedis();
    outlast = createOutlast({
      database: database.url,
      adapter: fromPg(database.pool),
      ...(redis === undefined ? {} : { broker: redis.url }),
    });
    services = [await startRelay(outlast), await startResurrector(outlast)];
  });

  afterAll(async () => {
    for (const service of services) await service.stop();
    await outlast.close();
    await database.dispose();
    await redis?.dispose();
  });

  /** A task that pays an order once, however often it is called. */
  const pay = (ttl: '24h' | '1s' = '24h') => {
    count += 1;
    return task(`pay.order-${count}`, {
      queue: `pay${count}`,
      input: unchecked<Order>(),
      result: unchecked<unknown>(),
      idempotent: { key: input => input.order, ttl },
    });
  };

  const working = async <T>(handlers: readonly Handler[], fn: () => Promise<T>): Promise<T> => {
    const queues = [...new Set(handlers.map(handler => handler.task.contract.queue))];
    const worker = await startWorker(outlast, { tasks: handlers, queues, concurrency: 8 });
    try {
      return await fn();
    } finally {
      await worker.stop();
    }
  };

  const inspect = (id: string) => until(() => createAdmin(outlast).tasks.inspect(id));
  /** A task has found the key held, and waits for it. */
  const waits = (id: string) =>
    until(async () => {
      const { state, history } = await inspect(id);
      return state === 'waiting' && history.some(({ step }) => step === 'released');
    });

  it('run once: the others wait without spending an attempt, and end with the result of the first', async () => {
    const paying = pay();
    const [started, finish] = [gate(), gate()];
    let runs = 0;
    const handler = outlast.handler(paying, async () => {
      runs += 1;
      started.open();
      await finish.opened;
      return { receipt: 'r-1', big: 2n ** 60n };
    });
    const told: string[] = [];
    const undo = outlast.on('task:deduplicated', ({ id, original }) => {
      told.push(`${id} of ${original}`);
    });
    await working([handler], async () => {
      const first = await outlast.push(paying, { order: '17' });
      await started.opened;
      const others = await Promise.all(
        Array.from({ length: 5 }, () => outlast.push(paying, { order: '17' })),
      );
      for (const { id } of others) await waits(id);
      finish.open();
      const expected = { receipt: 'r-1', big: 2n ** 60n };
      for (const handle of [first, ...others]) expect(await handle.result()).toEqual(expected);
      for (const { id } of others)
        expect(await inspect(id)).toMatchObject({ failures: 0, crashes: 0 });
      await until(async () => told.length === others.length);
      expect(told.sort()).toEqual(others.map(({ id }) => `${id} of ${first.id}`).sort());
      // Another order is another call.
      expect(await (await outlast.push(paying, { order: '18' })).result()).toEqual(expected);
    });
    undo();
    expect(runs).toBe(2);
  });

  it('run again when the result has expired', async () => {
    const paying = pay('1s');
    let runs = 0;
    const handler = outlast.handler(paying, () => ++runs);
    await working([handler], async () => {
      expect(await (await outlast.push(paying, { order: '17' })).result()).toBe(1);
      await until(async () => {
        const found = await createAdmin(outlast).idempotency.show(`${paying.name}#17`);
        return found === null;
      });
      expect(await (await outlast.push(paying, { order: '17' })).result()).toBe(2);
    });
  });

  it('are dead letters with their bytes when the key belongs to another input, held or done', async () => {
    const paying = pay();
    const [started, finish] = [gate(), gate()];
    const handler = outlast.handler(paying, async () => {
      started.open();
      await finish.opened;
      return 'paid';
    });
    await working([handler], async () => {
      const first = await outlast.push(paying, { order: '17', cents: 1 });
      await started.opened;
      const early = await outlast.push(paying, { order: '17', cents: 2 });
      await expect(early.result()).rejects.toMatchObject({ type: 'ERR_IDEMPOTENCY_MISMATCH' });
      finish.open();
      await first.result();
      const late = await outlast.push(paying, { order: '17', cents: 3 });
      await expect(late.result()).rejects.toMatchObject({ type: 'ERR_IDEMPOTENCY_MISMATCH' });
      const letter = await createAdmin(outlast).deadLetters.show(late.id);
      expect(letter?.reason).toBe('ERR_IDEMPOTENCY_MISMATCH');
      expect(String(Buffer.from(letter?.body ?? []))).toContain('"cents":3');
      expect(await inspect(late.id)).toMatchObject({ state: 'dead', failures: 0 });
    });
  });

  it('keep their key through failed attempts, and free it when they die', async () => {
    const paying = pay();
    const [started, fail] = [gate(), gate()];
    const ran: string[] = [];
    const handler = outlast.handler(paying, {
      retry: { maxAttempts: 2, backoff: '10ms' },
      run: async (_, ctx) => {
        ran.push(ctx.id);
        if (new Set(ran).size > 1) return 'paid by the second';
        started.open();
        await fail.opened;
        throw new Error('declined');
      },
    });
    await working([handler], async () => {
      const first = await outlast.push(paying, { order: '17' });
      await started.opened;
      const second = await outlast.push(paying, { order: '17' });
      await waits(second.id);
      fail.open();
      await expect(first.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      expect(await second.result()).toBe('paid by the second');
      expect(ran).toEqual([first.id, first.id, second.id]);
      // The dead task is revived: it gets the result of the other one.
      expect(await createAdmin(outlast).deadLetters.retry(first.id)).toBe('ok');
      expect(await until(() => first.result().catch(() => null))).toBe('paid by the second');
    });
  });

  it('have their effects once per key, whichever task dies after them, until the result expires', async () => {
    const paying = pay('1s');
    const { queue } = paying.contract;
    const note = task(`${paying.name}.note`, { queue, input: unchecked<string>() });
    const noted: string[] = [];
    await database.pool.query('create table if not exists paid (name text, task_id text)');
    let runs = 0;
    const handlers = [
      outlast.handler(note, input => void noted.push(input)),
      outlast.handler(paying, {
        retry: { maxAttempts: 1 },
        run: async (_, ctx) => {
          runs += 1;
          const by = await ctx.transaction(async tx => {
            await tx.query('insert into paid values ($1, $2)', [paying.name, ctx.id]);
            return ctx.id;
          });
          await ctx.send(note, 'paid');
          if (runs === 1) throw new Error('after the effect');
          return by;
        },
      }),
    ];
    await working(handlers, async () => {
      const first = await outlast.push(paying, { order: '17', cents: 1 });
      await expect(first.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      // Another input, and still the same order: it is paid already.
      const second = await outlast.push(paying, { order: '17', cents: 2 });
      expect(await second.result()).toBe(first.id);
      await until(async () => {
        const found = await createAdmin(outlast).idempotency.show(`${paying.name}#17`);
        return found === null;
      });
      const third = await outlast.push(paying, { order: '17', cents: 1 });
      expect(await third.result()).toBe(third.id);
      await until(async () => noted.length === 2);
    });
    const { rows } = await database.pool.query('select task_id from paid where name = $1', [
      paying.name,
    ]);
    expect(rows).toHaveLength(2);
  });

  it('free their key when they are cancelled or discarded', async () => {
    const paying = pay();
    const started = gate();
    const ran: string[] = [];
    const handler = outlast.handler(paying, async (_, ctx) => {
      ran.push(ctx.id);
      if (ran.length > 2) return 'paid by the third';
      if (ran.length > 1) return discard('nothing to pay');
      started.open();
      await new Promise<void>(resolve => ctx.signal.addEventListener('abort', () => resolve()));
      throw new Error('aborted');
    });
    await working([handler], async () => {
      const first = await outlast.push(paying, { order: '17' });
      await started.opened;
      const second = await outlast.push(paying, { order: '17' });
      await waits(second.id);
      await first.cancel();
      await expect(second.result()).rejects.toMatchObject({ code: 'ERR_TASK_DISCARDED' });
      const third = await outlast.push(paying, { order: '17' });
      expect(await third.result()).toBe('paid by the third');
      expect(ran).toEqual([first.id, second.id, third.id]);
    });
  });

  it('have the same key in every run, also as steps of a chain', async () => {
    const paying = pay();
    const { queue } = paying.contract;
    const asking = task(`${paying.name}.ask`, { queue, result: unchecked<Order>() });
    const runs: string[] = [];
    const handlers = [
      outlast.handler(asking, () => ({ order: '17' })),
      outlast.handler(paying, {
        retry: { backoff: '10ms' },
        run: (_, ctx) => {
          runs.push(ctx.id);
          if (ctx.attempt === 1 && runs.length === 1) throw new Error('once more');
          return ctx.id;
        },
      }),
    ];
    await working(handlers, async () => {
      const flow = () =>
        outlast.transaction(tx => outlast.sendMany(tx, [chain(asking.with(), paying)]));
      const [one] = await flow();
      expect(await one.result()).toBe(one.id);
      const [other] = await flow();
      expect(await other.result()).toBe(one.id);
      expect(runs).toEqual([one.id, one.id]);
    });
  });

  it('do not run without a key when the migration that its input needs has failed', async () => {
    const before = pay();
    const { queue } = before.contract;
    const paying = task(before.name, {
      queue,
      version: 2,
      input: unchecked<Order>(),
      result: unchecked<unknown>(),
      idempotent: { key: input => input.order },
    });
    let [migrations, runs] = [0, 0];
    const handler = outlast.handler(paying, {
      migrations: {
        1: async (old: Order) => {
          migrations += 1;
          if (migrations === 1) throw new Error('the service it asks is away for a moment');
          return old;
        },
      },
      run: () => (runs += 1),
    });
    await working([handler], async () => {
      const one = await outlast.push(before, { order: '17' });
      expect(await one.result()).toBe(1);
      const two = await outlast.push(before, { order: '17' });
      expect(await two.result()).toBe(1);
      expect(runs).toBe(1);
    });
  });

  it('are refused when their key cannot be derived from their input, and dead letters when another sender sent them', async () => {
    const paying = pay();
    const bad = { order: '' };
    await expect(outlast.push(paying, bad)).rejects.toMatchObject({ code: 'ERR_NAME_UNSAFE' });
    const { queue } = paying.contract;
    const foreign = task(paying.name, { queue, input: unchecked<Order>() });
    let runs = 0;
    const handler = outlast.handler(paying, () => void (runs += 1));
    await working([handler], async () => {
      const sent = await outlast.push(foreign, bad);
      await expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_FAILED' });
      const letter = await createAdmin(outlast).deadLetters.show(sent.id);
      expect(letter?.reason).toBe('ERR_NAME_UNSAFE');
      expect(runs).toBe(0);
    });
  });
});
