import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresIdempotencyStore } from '../../src/adapters/postgres/postgres-idempotency-store.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import { PostgresLedgerReads } from '../../src/adapters/postgres/postgres-ledger-reads.ts';
import { PostgresResultStore } from '../../src/adapters/postgres/postgres-result-store.ts';
import { HOUR, makeEnvelope, unique } from '../conformance/envelopes.ts';
import { LedgerDriver, ledgerModel } from '../conformance/ledger-driver.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { startPostgres, type OwnPostgres } from '../support/postgres-server.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

async function open(url: string): Promise<{ driver: LedgerDriver; db: PgDatabase }> {
  const db = await PgDatabase.open({ url, poolSize: 2, queryTimeoutMs: 30_000 });
  onTestFinished(() => db.close());
  const driver = new LedgerDriver({
    ledger: new PostgresLedger(db),
    results: new PostgresResultStore(db),
    readModel: ledgerModel(new PostgresLedgerReads(db)),
    advance: async () => undefined,
    dispose: async () => undefined,
  });
  return { driver, db };
}

async function owned(server: Promise<OwnPostgres>): Promise<OwnPostgres> {
  const started = await server;
  onTestFinished(() => started.dispose());
  return started;
}

async function ask(url: string, text: string): Promise<Record<string, unknown> | undefined> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows[0];
  } finally {
    await client.end();
  }
}

describe('a standby that is promoted without the last commits', () => {
  it('gives out higher epochs, refuses runs it does not know, and has none of their keys', async () => {
    const primary = await owned(startPostgres());
    const link = await TcpProxy.to(primary.url);
    onTestFinished(() => link.close());
    const before = await open(primary.url);
    await migrate(before.db);
    const { worker } = await before.driver.open();
    const envelope = makeEnvelope();
    await before.driver.put(envelope);
    const { task: first } = await before.driver.beginWaiting(envelope, { worker });
    const standby = await owned(primary.standbyOf(link.url(primary.url)));
    await until(async () => {
      const text = `select count(*)::int as copies from pg_stat_replication where replay_lsn = pg_current_wal_lsn()`;
      return (await ask(primary.url, text))?.['copies'] === 1;
    });
    // From here on nothing is replicated to it.
    link.silence();
    await before.driver.release(first);
    const { task: lost } = await before.driver.beginWaiting(envelope, { worker });
    const unseen = await before.driver.running();
    const key = unique('key');
    const call = { key, digest: 'd', taskId: envelope.id, epoch: lost.epoch, run: lost.run };
    const keys = new PostgresIdempotencyStore(before.db);
    expect(await keys.acquire(call)).toMatchObject({ status: 'owned' });
    await primary.kill();
    expect(await ask(standby.url, 'select pg_promote(true, 60) as done')).toEqual({ done: true });

    const { driver, db } = await open(standby.url);
    expect(await driver.commit(lost)).toBe('stale');
    expect(await driver.commit(unseen.task)).toBe('absent');
    expect(await driver.release(first)).toBe('ok');
    const { task: next } = await driver.beginWaiting(envelope);
    expect(next.epoch).toBeGreaterThan(lost.epoch);
    expect((await driver.running(unseen.envelope)).task.epoch).toBeGreaterThan(unseen.task.epoch);
    // The stale run still exists, and completes nothing.
    const after = new PostgresIdempotencyStore(db);
    const own = { ...call, epoch: next.epoch, run: next.run };
    expect(await after.acquire(own)).toMatchObject({ status: 'owned' });
    expect(await after.complete({ ...call, result: null, ttlMs: HOUR })).toMatchObject({
      status: 'stale',
    });
    expect(await driver.commit(lost)).toBe('stale');
    expect(await driver.commit(next)).toBe('ok');
    expect(Number.isSafeInteger(next.epoch)).toBe(true);
  });
});

describe('a database that was copied from another server', () => {
  it('begins messages and waiting tasks above all earlier epochs, raised once for all callers', async () => {
    const database = await migratedDatabase('failover');
    onTestFinished(() => database.dispose());
    const [one, two] = [await open(database.url), await open(database.url)];
    const [worker, other] = [await one.driver.open(), await two.driver.open()];
    const known = makeEnvelope();
    const { task } = await one.driver.running(known);
    expect(task.epoch).toBe(1);
    await one.driver.release(task);
    // As in a copy of the data: they name another server.
    await database.pool.query(`update outlast_generation set shown = 'another server'`);
    const begun = await Promise.all([
      one.driver.begin(worker.worker, { messages: [makeEnvelope(), known] }),
      two.driver.begin(other.worker, { messages: [makeEnvelope()] }),
    ]);
    const epochs = new Set(begun.flatMap(reply => reply.begun.map(({ epoch }) => epoch)));
    expect(begun.map(reply => reply.begun.length)).toEqual([2, 1]);
    expect([...epochs]).toHaveLength(1);
    expect([...epochs][0]).toBeGreaterThan(2 ** 20);
    const { rows } = await database.pool.query<{ generation: string }>(
      'select generation from outlast_generation',
    );
    expect([...epochs][0]).toBe(Number(rows[0]?.generation) * 2 ** 20 + 1);
    const waiting = await one.driver.running();
    expect(waiting.task.epoch).toBe([...epochs][0]);
  });

  it('begins tasks that were set aside above all earlier epochs as well', async () => {
    const database = await migratedDatabase('failover');
    onTestFinished(() => database.dispose());
    const { driver } = await open(database.url);
    const { worker } = await driver.open();
    const [queue, name] = [unique('queue'), unique('task')];
    await driver.put(makeEnvelope({ queue, name }));
    const asked = { queues: [queue], limit: 4, isFirst: true };
    // From here on this ledger looks for tasks that were set aside before it looks for others.
    const before = await driver.begin(worker, { ...asked, runnable: { [unique('other')]: 1 } });
    expect(before.refused).toHaveLength(1);
    await driver.begin(worker, { ...asked, runnable: { [unique('other')]: 1 } });
    await database.pool.query(`update outlast_generation set shown = 'another server'`);
    const { begun } = await driver.begin(worker, { ...asked, runnable: { [name]: 1 } });
    expect(begun.map(({ epoch }) => epoch > 2 ** 20)).toEqual([true]);
  });
});
