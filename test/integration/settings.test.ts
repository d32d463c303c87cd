import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresCheckup } from '../../src/adapters/postgres/postgres-checkup.ts';
import { CHECK_LIMITS, type Check } from '../../src/telemetry/checkup.ts';
import { task } from '../../src/task/define-task.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import { migratedDatabase } from '../support/database.ts';
import { startPgbouncer } from '../support/pgbouncer.ts';

const nightly = task('settings.nightly');
/** A database with a changed setting, for sessions that start from now on. */
async function setting(assignment: string): Promise<string> {
  const database = await migratedDatabase('settings');
  onTestFinished(() => database.dispose());
  const client = new Client(database.url);
  await client.connect();
  const name = new URL(database.url).pathname.slice(1);
  await client.query(`alter database "${name}" set ${assignment}`);
  await client.end();
  return database.url;
}

async function send(url: string): Promise<unknown> {
  const outlast = createOutlast({ database: url });
  const sending = outlast.transaction(tx => outlast.send(tx, nightly));
  const answer = await sending.catch((error: unknown) => error);
  await outlast.close();
  return answer;
}

async function examine(url: string): Promise<ReadonlyMap<string, Check>> {
  const db = await PgDatabase.open({ url, poolSize: 1, queryTimeoutMs: 30_000 });
  const checkup = new PostgresCheckup(db, { isEmbedded: false, nowMs: () => Date.now() });
  const checks = await checkup.run(CHECK_LIMITS);
  await db.close();
  return new Map(checks.map(check => [check.name, check]));
}

describe('a database with a setting that we cannot work with', () => {
  it('is refused where triggers do not run, and doctor reports it', async () => {
    const url = await setting('session_replication_role = replica');
    const fields = { setting: 'session_replication_role', value: 'replica' };
    expect(await send(url)).toMatchObject({ code: 'ERR_DATABASE_SETTING', ...fields });
    const checks = await examine(url);
    expect(checks.get('settings')).toMatchObject({ status: 'problem', details: fields });
    expect(checks.has('schema')).toBe(false);
  });

  it('is refused where arrays cannot hold NULL and a pooler blocks our settings', async () => {
    const url = await setting('array_nulls = off');
    expect(await send(url)).toMatchObject({ id: expect.any(String) as string });
    const pooler = await startPgbouncer(url);
    onTestFinished(() => pooler.dispose());
    expect(await send(pooler.url)).toMatchObject({
      code: 'ERR_DATABASE_SETTING',
      setting: 'array_nulls',
    });
  });

  it('can be checked where it is read-only, and a write fails with a hint', async () => {
    const url = await setting('default_transaction_read_only = on');
    expect(await send(url)).toMatchObject({
      code: 'ERR_STORE_UNAVAILABLE',
      hint: expect.stringContaining('default_transaction_read_only') as string,
    });
    const checks = await examine(url);
    expect(checks.get('settings')).toMatchObject({
      status: 'problem',
      details: { setting: 'default_transaction_read_only' },
    });
    expect(checks.get('schema')).toMatchObject({ status: 'ok' });
  });
});
