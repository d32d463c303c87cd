import type { PGlite } from '@electric-sql/pglite';
import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import { fromPGlite } from '../../src/adapters/transactions/pglite.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import { task } from '../../src/task/define-task.ts';
import { createOutlast } from '../../src/app/create-outlast.ts';
import {
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { DRIVERS } from '../support/mysql-drivers.ts';
import { startPgbouncer } from '../support/pgbouncer.ts';

const nightly = task('same.nightly');
const NOWHERE = 'postgres://nobody@127.0.0.1:1/none';

let one: MigratedDatabase;
let other: MigratedDatabase;

beforeAll(async () => {
  one = await migratedDatabase('one');
  other = await migratedDatabase('other');
});

afterAll(async () => {
  await one.dispose();
  await other.dispose();
});

async function caught(fn: () => unknown): Promise<unknown> {
  try {
    return await fn();
  } catch (error) {
    return error;
  }
}

/** Sends in a transaction of the adapter; returns the error, or how many rows `pool` has then. */
async function send<Tx>(
  config: { database: string; outboxes?: Record<string, { database: string }>; outbox?: string },
  adapter: TransactionAdapter<Tx>,
): Promise<unknown> {
  const outlast = createOutlast({ ...config, adapter });
  onTestFinished(() => outlast.close());
  return await caught(async () => {
    const both = [1, 2].map(() => outlast.transaction(tx => outlast.send(tx, nightly)));
    return (await Promise.all(both)).map(({ isNew }) => isNew);
  });
}

const rowsIn = async (pool: Pool): Promise<number> =>
  ((await pool.query('delete from outlast_outbox returning 1')).rowCount ?? 0) +
  ((await pool.query('delete from outlast_task returning 1')).rowCount ?? 0);

const withPassword = (url: string): string => url.replace('postgres@', 'postgres:hunter2@');

describe('an adapter without a database in the configuration', () => {
  it('is refused, and nothing falls back to an embedded database', async () => {
    const refused = { code: 'ERR_CONFIG_TIER', option: 'database' };
    expect(await caught(() => createOutlast({ adapter: fromPg(one.pool) }))).toMatchObject(refused);
    const own = createOutlast();
    expect(await caught(() => own.via(fromPg(one.pool)))).toMatchObject(refused);
    const named = { outboxes: { crm: { database: one.url } }, outbox: 'crm' };
    expect(
      await caught(() => createOutlast({ ...named, adapter: fromPg(one.pool) })),
    ).toMatchObject(refused);
    await own.close();
  });
});

describe('two databases', () => {
  it('are refused with the first sends, by name and without secrets, and no row is written', async () => {
    const answer = await send({ database: withPassword(one.url) }, fromPg(other.pool));
    expect(answer).toMatchObject({
      code: 'ERR_DATABASE_MISMATCH',
      adapter: expect.stringContaining(new URL(other.url).pathname.slice(1)) as string,
      configured: expect.stringContaining(new URL(one.url).pathname) as string,
    });
    expect((answer as Error).message).not.toContain('hunter2');
    expect([await rowsIn(one.pool), await rowsIn(other.pool)]).toEqual([0, 0]);
  });

  it('may be two schemas of one database as well', async () => {
    await one.pool.query('create schema if not exists apart');
    await one.pool.query('create table apart.outlast_outbox (like outlast_outbox including all)');
    const pool = new Pool({ connectionString: one.url, options: '-c search_path=apart,public' });
    onTestFinished(() => pool.end());
    expect(await send({ database: one.url }, fromPg(pool))).toMatchObject({
      code: 'ERR_DATABASE_MISMATCH',
    });
  });

  it('are refused for a named outbox', async () => {
    const config = { database: NOWHERE, outboxes: { crm: { database: one.url } }, outbox: 'crm' };
    expect(await send(config, fromPg(other.pool))).toMatchObject({
      code: 'ERR_DATABASE_MISMATCH',
      message: expect.stringContaining('outboxes.crm.database') as string,
    });
    expect(await send(config, fromPg(one.pool))).toEqual([true, true]);
    expect([await rowsIn(one.pool), await rowsIn(other.pool)]).toEqual([2, 0]);
  });

  it('of which one is a server and one embedded, or two embedded ones, are refused at once', async () => {
    const embeddedIn = (dataDir?: string) => {
      const db = { dataDir, transaction: () => Promise.reject(new Error('nobody gets so far')) };
      return fromPGlite(db as unknown as PGlite);
    };
    const refused = <Tx>(database: string, adapter: TransactionAdapter<Tx>): void =>
      expect(() => createOutlast({ database, adapter })).toThrow(
        expect.objectContaining({ code: 'ERR_DATABASE_MISMATCH' }) as Error,
      );
    const [database, folder] = ['pglite:/data/shop', '/data/shop/data'];
    refused(database, fromPg(one.pool));
    refused(one.url, embeddedIn(folder));
    refused(database, embeddedIn());
    refused(database, embeddedIn('memory://'));
    refused(database, embeddedIn('/data/other/data'));
    for (const same of [folder, `file://${folder}`])
      await createOutlast({ database, adapter: embeddedIn(same) }).close();
  });

  it.each(Object.entries(DRIVERS))('are refused on MariaDB with %s', async (_, open) => {
    const databases: MigratedMariadb[] = [];
    for (const name of ['one', 'other']) databases.push(await migratedMariadb(name));
    const [mine, theirs] = databases as [MigratedMariadb, MigratedMariadb];
    const driver = open(mine.url);
    onTestFinished(async () => {
      await driver.close();
      for (const database of databases) await database.dispose();
    });
    const config = (database: string) => ({
      database: NOWHERE,
      outboxes: { crm: { database } },
      outbox: 'crm',
    });
    expect(await send(config(theirs.url), driver.adapter)).toMatchObject({
      code: 'ERR_DATABASE_MISMATCH',
    });
    expect((await mine.pool.query('select 1 from outlast_outbox'))[0]).toHaveLength(0);
    expect(await send(config(mine.url), driver.adapter)).toEqual([true, true]);
  });
});

describe('one database', () => {
  it('is recognised under another name and through a pooler, and compared once', async () => {
    const pooler = await startPgbouncer(one.url);
    onTestFinished(() => pooler.dispose());
    const pool = new Pool({ connectionString: pooler.url });
    onTestFinished(() => pool.end());
    const database = one.url.replace('127.0.0.1', 'localhost');
    expect(await send({ database }, fromPg(pool))).toEqual([true, true]);
    expect(await send({ database: pooler.url }, fromPg(one.pool))).toEqual([true, true]);
    expect(await rowsIn(one.pool)).toBe(4);
    const texts: string[] = [];
    const adapter = fromPg(one.pool);
    const counting: TransactionAdapter<PoolClient> = {
      ...adapter,
      execute: (tx, text, values) => {
        texts.push(text);
        return adapter.execute(tx, text, values);
      },
    };
    const outlast = createOutlast({ database: one.url, adapter: counting });
    onTestFinished(() => outlast.close());
    for (let n = 0; n < 3; n++) await outlast.transaction(tx => outlast.send(tx, nightly));
    expect(texts.filter(text => text.includes('advisory_xact_lock'))).toHaveLength(1);
    await rowsIn(one.pool);
  });

  it('is not reported as a mismatch when the transaction ended before it was compared', async () => {
    const outlast = createOutlast({ database: one.url, adapter: fromPg(one.pool) });
    onTestFinished(() => outlast.close());
    const client = await one.pool.connect();
    await client.query('BEGIN');
    const sending = caught(() => outlast.send(client, nightly));
    await client.query('ROLLBACK');
    expect(await sending).toMatchObject({ code: 'ERR_NOT_IN_TRANSACTION' });
    client.release();
    expect(await rowsIn(one.pool)).toBe(0);
  });

  it('that does not answer does not stop a send', async () => {
    expect(await send({ database: NOWHERE }, fromPg(one.pool))).toEqual([true, true]);
    expect(await rowsIn(one.pool)).toBe(2);
  });
});
