import { describe, expect, it, onTestFinished } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresTaskFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { noFaults } from '../../src/runtime/runtime.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
import { makeEnvelope } from '../conformance/envelopes.ts';
import { migratedDatabase, until } from '../support/database.ts';

const REQUEST = { worker: 'w', queues: [], limit: 0, suspects: 1, crashBudgets: { '*': 5 } };

/** A separate run, and the door for its effects. */
async function setup() {
  const database = await migratedDatabase('fence');
  const db = await PgDatabase.open({ url: database.url, poolSize: 2, queryTimeoutMs: 30_000 });
  onTestFinished(async () => {
    await db.close();
    await database.dispose();
  });
  await database.pool.query('create table effect (n int)');
  const ledger = new PostgresLedger(db);
  await ledger.open({ worker: 'w', process: 'p', host: 'h', pid: 1, leaseMs: 60_000 });
  const messages = [makeEnvelope()];
  const reply = await ledger.begin({ ...REQUEST, run: 'r', messages });
  const run = reply.status === 'open' ? reply.begun[0] : undefined;
  if (run === undefined) throw new Error('nothing was begun');
  const fences = new PostgresTaskFences(fromPg(database.pool));
  const door = new EffectOnceDoor({ fences, ledger: null, faultPoint: noFaults });
  return { ...database, ledger, run, door };
}

describe('the door', () => {
  it.each(['40001', '40P01'])('starts over when the database reports %s', async code => {
    const { pool, run, door } = await setup();
    let starts = 0;
    await door.pass(run, 'main', async tx => {
      await tx.query('insert into effect values (1)');
      starts += 1;
      if (starts < 3) throw Object.assign(new Error('try again'), { code });
      return null;
    });
    expect(starts).toBe(3);
    expect((await pool.query('select 1 from effect')).rowCount).toBe(1);
  });

  it('waits for its fence no longer than 5 s, and then reports that the store is busy', async () => {
    const { pool, run, door } = await setup();
    const holder = await pool.connect();
    await holder.query('begin');
    await holder.query('select 1 from outlast_task where id = $1 for update', [run.id]);
    const passing = door.pass(run, 'main', () => Promise.resolve(null));
    await expect(passing).rejects.toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      message: expect.stringContaining('fence') as string,
    });
    await holder.query('rollback');
    holder.release();
  });

  it('lets the server end the transaction of a process that stopped responding', async () => {
    const { run, door } = await setup();
    let limit: unknown;
    await door.pass(run, 'main', async tx => {
      limit = (await tx.query('show idle_in_transaction_session_timeout')).rows;
      return null;
    });
    expect(limit).toEqual([{ idle_in_transaction_session_timeout: '10s' }]);
  });

  it('keeps the steps of a key for their time after their task is forgotten', async () => {
    const { pool, ledger, run, door } = await setup();
    const effect = { key: 'order 17', origin: run.id, ttlMs: 3_600_000 };
    await door.pass({ ...run, effect }, 'main', () => Promise.resolve(Uint8Array.from([1])));
    const outcome = { kind: 'done', result: null } as const;
    await ledger.commit([{ ref: run, outcome, after: [], dedupMs: 1, resultMs: 1 }]);
    const steps = async (): Promise<number | null> =>
      (await pool.query('select 1 from outlast_effect')).rowCount;
    await until(() => ledger.prune(10));
    await ledger.prune(10);
    expect(await steps()).toBe(1);
    await pool.query(`update outlast_effect set ends_at = ends_at - interval '2 hours'`);
    await ledger.prune(10);
    expect(await steps()).toBe(0);
  });

  it('that an unresponsive process holds blocks the recovery of its own task, and of no other', async () => {
    const { pool, ledger, run } = await setup();
    const others = [makeEnvelope(), makeEnvelope()];
    await ledger.begin({ ...REQUEST, run: 'others', messages: others });
    const holder = await pool.connect();
    await holder.query('begin');
    await holder.query('select 1 from outlast_task where id = $1 for update', [run.id]);
    await ledger.condemn({ kind: 'worker', worker: 'w' });
    const returned = [await ledger.reap(1), await ledger.reap(1), await ledger.reap(1)];
    const ids = returned.flatMap(reply => reply.returned.map(({ id }) => id));
    expect(ids.toSorted()).toEqual(others.map(({ id }) => id).toSorted());
    await holder.query('rollback');
    holder.release();
    expect((await ledger.reap(1)).returned).toMatchObject([{ id: run.id }]);
  });
});
