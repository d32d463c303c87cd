import fastify, { type FastifyInstance } from 'fastify';
import { request as httpRequest } from 'node:http';
import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { outlastPlugin } from '../../dist/frameworks/fastify.js';
import { createOutlast, startWorker, task, type Outlast } from '../../dist/index.js';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

declare module 'fastify' {
  interface FastifyInstance {
    outlast: Outlast<PoolClient>;
  }
}

let database: MigratedDatabase;

beforeAll(async () => {
  database = await migratedDatabase('frameworks');
});

afterAll(() => database.dispose());

interface Shop {
  readonly app: FastifyInstance;
  readonly url: string;
  readonly pool: Pool;
  readonly events: string[];
}

/** A shop with its pool in a plugin, closed as Fastify users do, and a route in the transaction of each request. */
async function shop(run: (order: string) => Promise<string>, committing?: () => Promise<void>) {
  const count = (shops += 1);
  const events: string[] = [];
  const charge = task(`shop.charge-${count}`, {
    queue: `shop-${count}`,
    input: z.object({ order: z.string() }),
    result: z.string(),
  });
  const pool = new Pool({ connectionString: database.url });
  const outlast = createOutlast({ database: database.url, adapter: fromPg(pool) });
  const chargeHandler = outlast.handler(charge, async ({ order }) => {
    const receipt = await run(order);
    await pool.query('select 1');
    events.push('charged');
    return receipt;
  });
  const app = fastify();
  app.addHook('onClose', async () => {
    await pool.end();
    events.push('pool closed');
  });
  await app.register(outlastPlugin, {
    outlast,
    services: () => [startWorker(outlast, { tasks: [chargeHandler], queues: [`shop-${count}`] })],
  });
  app.post<{ Body: { order: string } }>('/orders', async request => {
    const sent = await app.outlast.transaction(async tx => {
      const made = await app.outlast.send(tx, charge, request.body);
      events.push('sent');
      await committing?.();
      if (request.raw.socket.destroyed) throw new Error('nobody is there');
      return made;
    });
    const answer = { receipt: await sent.result({ timeout: '60s' }) };
    events.push('answered');
    return answer;
  });
  app.get('/alive', () => ({ alive: true }));
  onTestFinished(() => app.close());
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return { app, url, pool, events, queue: `shop-${count}` } satisfies Shop & { queue: string };
}
let shops = 0;

const ORDER = {
  method: 'POST',
  body: '{"order":"17"}',
  headers: { 'content-type': 'application/json' },
};

it('closes in order: the request that waits for a running task, the worker, the instance, the database', async () => {
  const [running, go] = [gate(), gate()];
  const { app, url, events } = await shop(async order => {
    running.open();
    await go.opened;
    return `receipt ${order}`;
  });
  const answer = fetch(`${url}/orders`, ORDER);
  await running.opened;
  const closing = app.close();
  go.open();
  expect(await (await answer).json()).toEqual({ receipt: 'receipt 17' });
  await closing;
  expect(events).toEqual(['sent', 'charged', 'answered', 'pool closed']);
});

it('finishes a task that runs when the application closes, before its database is closed', async () => {
  const [running, go] = [gate(), gate()];
  const { app, url, events, queue } = await shop(async order => {
    running.open();
    await go.opened;
    return order;
  });
  const ending = new AbortController();
  const answer = fetch(`${url}/orders`, { ...ORDER, signal: ending.signal }).catch(() => null);
  await running.opened;
  // The client has gone: nothing but the worker keeps the application.
  ending.abort();
  await answer;
  const closing = app.close();
  go.open();
  await closing;
  expect(events.indexOf('charged')).toBeLessThan(events.indexOf('pool closed'));
  const { rows } = await database.pool.query<{ state: string }>(
    'select state from outlast_task where queue = $1',
    [queue],
  );
  expect(rows.map(({ state }) => state)).toEqual(['done']);
});

it('sends nothing for a request that is given up between its send and its commit', async () => {
  const [sent, go] = [gate(), gate()];
  const committing = async (): Promise<void> => {
    sent.open();
    await go.opened;
  };
  const { app, url, events, queue } = await shop(order => Promise.resolve(order), committing);
  const closed = new Promise<void>(resolve => {
    app.server.once('connection', socket => socket.once('close', () => resolve()));
  });
  const client = httpRequest(`${url}/orders`, { method: 'POST', headers: ORDER.headers });
  // It is told that its connection was cut.
  client.on('error', () => undefined);
  client.end(ORDER.body);
  await sent.opened;
  client.destroy();
  await closed;
  go.open();
  // The transaction is over when its connection can be had again.
  await until(async () => {
    const { rows } = await database.pool.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'`,
    );
    return rows[0]?.n === 0;
  });
  const { rows } = await database.pool.query('select id from outlast_task where queue = $1', [
    queue,
  ]);
  expect([rows, events]).toEqual([[], ['sent']]);
  expect(await (await fetch(`${url}/alive`)).json()).toEqual({ alive: true });
});
