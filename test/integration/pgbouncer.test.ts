import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  startRelay,
  startResurrector,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { startPgbouncer, type OwnPgbouncer } from '../support/pgbouncer.ts';

const double = task('pooled.double', {
  input: unchecked<number>(),
  result: unchecked<number>(),
});

let database: MigratedDatabase;
let pooler: OwnPgbouncer;
beforeAll(async () => {
  database = await migratedDatabase('pooled');
  pooler = await startPgbouncer(database.url);
});
afterAll(async () => {
  await pooler.dispose();
  await database.dispose();
});

/** A pool of the application, and an Outlast on it. */
function open(url: string): { readonly pool: Pool; readonly outlast: Outlast<PoolClient> } {
  const pool = new Pool({ connectionString: url, max: 6 });
  const outlast = createOutlast({ database: url, adapter: fromPg(pool) });
  onTestFinished(async () => {
    await outlast.close();
    await pool.end();
  });
  return { pool, outlast };
}

async function send(outlast: Outlast<PoolClient>, client: PoolClient, n: number): Promise<void> {
  await client.query('begin');
  await outlast.send(client, double, n);
  await client.query('commit');
}

const namesOf = async (client: PoolClient): Promise<number> =>
  (await client.query("select 1 from pg_prepared_statements where name like 'outlast_%'"))
    .rowCount ?? 0;

describe('sends through a pooler in transaction mode', () => {
  it('use a different session each time and never fail', async () => {
    const { pool, outlast } = open(pooler.url);
    const clients = await Promise.all(Array.from({ length: 6 }, () => pool.connect()));
    const sessions = new Set<string>();
    await Promise.all(
      clients.map(async client => {
        for (let n = 0; n < 20; n++) {
          await client.query('begin');
          const { rows } = await client.query('select pg_backend_pid()::text as pid');
          sessions.add((rows[0] as { pid: string }).pid);
          await outlast.send(client, double, n);
          await client.query('commit');
        }
      }),
    );
    expect(sessions.size).toBe(2);
    expect(await Promise.all(clients.map(namesOf))).toEqual([0, 0, 0, 0, 0, 0]);
    for (const client of clients) client.release();
    const { rows } = await database.pool.query('delete from outlast_task returning id');
    expect(rows).toHaveLength(120);
  });
});

describe('sends on a dedicated session', () => {
  it('have their statement planned once', async () => {
    const { pool, outlast } = open(database.url);
    const client = await pool.connect();
    for (let n = 0; n < 3; n++) await send(outlast, client, n);
    expect(await namesOf(client)).toBeGreaterThan(0);
    client.release();
    await database.pool.query('delete from outlast_task');
  });

  it('lose one transaction, and not a second one, after DISCARD ALL', async () => {
    const { pool, outlast } = open(database.url);
    const client = await pool.connect();
    for (let n = 0; n < 3; n++) await send(outlast, client, n);
    await client.query('discard all');
    await expect(send(outlast, client, 3)).rejects.toMatchObject({ code: '26000' });
    await client.query('rollback');
    for (let n = 3; n < 6; n++) await send(outlast, client, n);
    expect(await namesOf(client)).toBe(0);
    client.release();
    const { rows } = await database.pool.query('delete from outlast_task returning id');
    expect(rows).toHaveLength(6);
  });

  it('keep no prepared statement where that is switched off', async () => {
    const pool = new Pool({ connectionString: database.url, max: 1 });
    const outlast = createOutlast({
      database: database.url,
      adapter: fromPg(pool, { prepare: false }),
    });
    const client = await pool.connect();
    await send(outlast, client, 1);
    expect(await namesOf(client)).toBe(0);
    client.release();
    await outlast.close();
    await pool.end();
    await database.pool.query('delete from outlast_task');
  });
});

describe('relay, worker and resurrector through a pooler in transaction mode', () => {
  it('run tasks that were sent straight to them, return their results and renew their leases', async () => {
    const { outlast } = open(pooler.url);
    const services = await Promise.all([
      startRelay(outlast, { idleTime: '20ms' }),
      startResurrector(outlast),
      startWorker(outlast, {
        tasks: [
          outlast.handler(double, (n, ctx) =>
            ctx.transaction(async tx => {
              const { rows } = await tx.query<{ twice: number }>('select $1::int * 2 as twice', [
                n,
              ]);
              return rows[0]?.twice ?? 0;
            }),
          ),
        ],
        idleTime: '20ms',
        concurrency: 8,
      }),
    ]);
    const inputs = Array.from({ length: 40 }, (_, n) => n);
    const sent = await outlast.transaction(tx =>
      outlast.sendMany(
        tx,
        inputs.map(n => double.with(n)),
      ),
    );
    const results = await Promise.all(sent.map(handle => handle.result()));
    expect(results).toEqual(inputs.map(n => n * 2));
    const deadline = async (): Promise<number> => {
      const { rows } = await database.pool.query<{ at: Date }>(
        `select max(deadline) as at from outlast_worker where state = 'open'`,
      );
      return Number(rows[0]?.at);
    };
    const first = await deadline();
    await until(async () => (await deadline()) > first);
    await Promise.all(services.map(service => service.stop()));
  });

  it('have time limits on their transactions although the pooler refuses session settings', async () => {
    const outlast = createOutlast({ database: pooler.url });
    const limits = await outlast.transaction(tx =>
      tx.query(
        `select current_setting('idle_in_transaction_session_timeout') as idle,
           current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement`,
      ),
    );
    expect(limits).toEqual([{ idle: '10s', lock: '10s', statement: '30s' }]);
    await outlast.close();
  });
});
