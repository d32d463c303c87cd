import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolClient } from 'pg';
import { createAdmin } from '../../dist/admin/index.js';
import {
  chain,
  startWorker,
  task,
  unchecked,
  type Handler,
  type Outlast,
} from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { relayedOutlast, type RelayedOutlast } from '../support/relayed-outlast.ts';
import { rabbitmqUrl } from '../support/servers.ts';

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('deadlines');
});
afterAll(() => database.dispose());

describe.each([
  ['in the database', () => ({})],
  ['through RabbitMQ', () => ({ broker: { url: rabbitmqUrl(), destinations: ['queue*'] } })],
])('%s', (_, broker) => {
  let outlast: Outlast<PoolClient>;
  let relayed: RelayedOutlast;

  beforeAll(async () => {
    relayed = await relayedOutlast(database, broker());
    outlast = relayed.outlast;
  });
  afterAll(() => relayed.dispose());

  async function withWorker<T>(handler: Handler, fn: () => Promise<T>): Promise<T> {
    const queues = [handler.task.contract.queue];
    const worker = await startWorker(outlast, { tasks: [handler], queues });
    try {
      return await fn();
    } finally {
      await worker.stop();
    }
  }

  const makeWork = () =>
    task(unique('work'), {
      queue: unique('queue'),
      input: unchecked<unknown>(),
      result: unchecked<unknown>(),
    });

  describe('a deadline', () => {
    it('that has passed prevents the task from ever beginning, and is counted', async () => {
      const work = makeWork();
      const ran: unknown[] = [];
      const { tasks: before } = await createAdmin(outlast).stats();
      const deadline = new Date(Date.now() - 1_000);
      const sent = await outlast.transaction(tx => outlast.send(tx, work, 1, { deadline }));
      await withWorker(
        outlast.handler(work, value => ran.push(value)),
        async () => expect(sent.result()).rejects.toMatchObject({ code: 'ERR_TASK_EXPIRED' }),
      );
      expect(ran).toEqual([]);
      const { cancelled, expired } = (await createAdmin(outlast).stats()).tasks;
      expect([cancelled, expired]).toEqual([before.cancelled, before.expired + 1]);
    });

    it('is passed on to follow-ups, in messages and in the handler', async () => {
      const [first, second, sent] = [makeWork(), makeWork(), makeWork()];
      const deadline = new Date(Math.floor(Date.now() / 1_000) * 1_000 + 3_600_000);
      const call = chain(first.with(1, { deadline }), second);
      await outlast.transaction(tx => outlast.sendMany(tx, [call]));
      const seen = await withWorker(
        outlast.handler(first, async (_input, ctx) => {
          await ctx.send(sent, 1, { deadline: '2d' });
          return ctx.deadline?.getTime();
        }),
        () => until(() => expiryIn(second.contract.queue)),
      );
      expect(seen).toBe(deadline.getTime());
      expect(await until(() => expiryIn(sent.contract.queue))).toBe(deadline.getTime());
      const inHandler = await withWorker(
        outlast.handler(second, (_input, ctx) => ctx.deadline?.getTime()),
        () => until(() => resultOf(second.name)),
      );
      expect(inHandler).toBe(deadline.getTime());
    });

    /** Of the one task that waits in a queue: the time by which it must have begun. */
    async function expiryIn(queue: string): Promise<number | null> {
      if (!('broker' in broker())) {
        const text = 'select expires_at from outlast_task where queue = $1';
        const { rows } = await database.pool.query<{ expires_at: Date }>(text, [queue]);
        return rows[0]?.expires_at.getTime() ?? null;
      }
      const rabbit = await RabbitInspector.connect();
      const message = await rabbit.peek(queue);
      await rabbit.close();
      const { expires, deadline } = (message?.properties.headers ?? {}) as Record<string, string>;
      expect(expires).toBe(deadline);
      return expires === undefined ? null : new Date(expires).getTime();
    }

    async function resultOf(name: string): Promise<number | null> {
      const text = `select convert_from(result, 'UTF8') as result from outlast_task where name = $1 and state = 'done'`;
      const { rows } = await database.pool.query<{ result: string }>(text, [name]);
      return rows[0] === undefined ? null : Number(rows[0].result);
    }
  });

  describe('a cancelled task', () => {
    it.each([
      ['before it has begun', false],
      ['while it waits for another attempt', true],
    ])('%s never runs again', async (_when, isBegun) => {
      const work = makeWork();
      const ran: unknown[] = [];
      const handler = outlast.handler(work, {
        retry: { maxAttempts: 2, backoff: '1ms' },
        run: value => {
          ran.push(value);
          throw new Error('again');
        },
      });
      const sent = await outlast.transaction(tx => outlast.send(tx, work, 'it'));
      const slow = outlast.handler(work, {
        retry: { backoff: '1h' },
        run: () => Promise.reject(new Error('later')),
      });
      if (isBegun) await withWorker(slow, () => failedOnce(sent.id));
      await sent.cancel();
      expect(await createAdmin(outlast).tasks.cancel(sent.id)).toBe('ok');
      const last = await outlast.transaction(tx => outlast.send(tx, work, 'another'));
      await withWorker(handler, () => until(() => isDead(last.id)));
      expect(ran).toEqual(['another', 'another']);
      expect(await sent.state()).toBe('cancelled');
      expect(await createAdmin(outlast).tasks.cancel(last.id)).toBe('terminal');
      expect(await last.state()).toBe('dead');
    });

    const isDead = async (id: string): Promise<boolean> =>
      (await createAdmin(outlast).deadLetters.show(id)) !== null;

    async function failedOnce(id: string): Promise<unknown> {
      const text = `select 1 from outlast_task where id = $1 and state = 'waiting' and failures = 1`;
      return await until(async () => (await database.pool.query(text, [id])).rowCount);
    }
  });
});
