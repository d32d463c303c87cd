import { afterAll, beforeAll, describe } from 'vitest';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlFenceRows } from '../../src/adapters/mysql/mysql-fence-rows.ts';
import { MysqlFences } from '../../src/adapters/mysql/mysql-fences.ts';
import { type PGliteDatabase } from '../../src/adapters/pglite/pglite-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresFenceRows } from '../../src/adapters/postgres/postgres-fence-rows.ts';
import { PostgresFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { fromDatabase } from '../../src/adapters/sql/sql-transaction.ts';
import { fromPGlite } from '../../src/adapters/transactions/pglite.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import {
  migratedDatabase,
  migratedMariadb,
  type MigratedDatabase,
  type MigratedMariadb,
} from '../support/database.ts';
import { makeLedger } from '../support/memory-ledger.ts';
import { DRIVERS, type Driver } from '../support/mysql-drivers.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';
import type { LedgerReadsFixture } from './ledger-reads.ts';
import { describeDoors, EFFECT, type SeparateParts } from './separate-parts.ts';
import { openEmbeddedDatabase } from '../support/embedded.ts';

const redis = (): Promise<LedgerReadsFixture> => openTestLedger(redisUrl());

describe('PostgreSQL', () => {
  let database: MigratedDatabase;
  let db: PgDatabase;
  beforeAll(async () => {
    database = await migratedDatabase('fences');
    db = await PgDatabase.open({ url: database.url, poolSize: 5, queryTimeoutMs: 30_000 });
    await db.query(EFFECT);
  });
  afterAll(async () => {
    await db.close();
    await database.dispose();
  });
  const on = async <Tx>(
    adapter: TransactionAdapter<Tx>,
    ledger: LedgerReadsFixture,
  ): Promise<SeparateParts<Tx>> => ({
    adapter,
    fences: new PostgresFences(adapter),
    rows: new PostgresFenceRows(db),
    ledger,
    ask: sql => db.query(sql),
    conflict: { code: '40001' },
  });
  describeDoors(
    'fromPg, ledger in Redis',
    async () => await on(fromPg(database.pool), await redis()),
  );
  describeDoors(
    'fromDatabase, ledger in memory',
    async () =>
      await on(
        fromDatabase(async () => db),
        await makeLedger(),
      ),
  );
});

describe('PGlite', () => {
  let db: PGliteDatabase;
  beforeAll(async () => {
    db = await openEmbeddedDatabase();
    await migrate(db);
    await db.query(EFFECT);
  });
  afterAll(() => db.close());
  describeDoors('fromPGlite, ledger in memory', async () => {
    const adapter = fromPGlite(db.pglite);
    return {
      adapter,
      fences: new PostgresFences(adapter),
      rows: new PostgresFenceRows(db),
      ledger: await makeLedger(),
      ask: sql => db.query(sql),
      conflict: { code: '40P01' },
      canInterleave: false,
    };
  });
});

describe('MariaDB', () => {
  let database: MigratedMariadb;
  let db: MysqlDatabase;
  const drivers: Driver[] = [];
  beforeAll(async () => {
    database = await migratedMariadb('fences');
    db = await MysqlDatabase.open({ url: database.url, poolSize: 5, queryTimeoutMs: 30_000 });
    await db.query(EFFECT);
  });
  afterAll(async () => {
    for (const driver of drivers) await driver.close();
    await db.close();
    await database.dispose();
  });
  const on = <Tx>(
    adapter: TransactionAdapter<Tx>,
    ledger: LedgerReadsFixture,
  ): SeparateParts<Tx> => ({
    adapter,
    fences: new MysqlFences(adapter),
    rows: new MysqlFenceRows(db),
    ledger,
    ask: sql => db.query(sql),
    conflict: { errno: 1213 },
  });
  for (const [name, open] of Object.entries(DRIVERS)) {
    describeDoors(`${name}, ledger in Redis`, async () => {
      const driver = open(database.url);
      drivers.push(driver);
      return on(driver.adapter, await redis());
    });
  }
  describeDoors('fromDatabase, ledger in memory', async () =>
    on(
      fromDatabase(async () => db, 'mysql'),
      await makeLedger(),
    ),
  );
});
