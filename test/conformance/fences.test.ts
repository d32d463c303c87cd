import { afterAll, beforeAll, describe } from 'vitest';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { MysqlFenceRows } from '../../src/adapters/mysql/mysql-fence-rows.ts';
import { MysqlFences } from '../../src/adapters/mysql/mysql-fences.ts';
import {
  openPGliteDatabase,
  type PGliteDatabase,
} from '../../src/adapters/pglite/pglite-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresFenceRows } from '../../src/adapters/postgres/postgres-fence-rows.ts';
import { PostgresFences } from '../../src/adapters/postgres/postgres-fences.ts';
import { fromDatabase } from '../../src/adapters/sql/sql-transaction.ts';
import { fromPGlite } from '../../src/adapters/transactions/pglite.ts';
import { fromPg } from '../../src/adapters/transactions/pg.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';
import type { FenceRows } from '../../src/recovery/fence-rows.ts';
import { noFaults, type FaultPoint } from '../../src/runtime/fault-point.ts';
import type { Fences } from '../../src/worker/effects/door.ts';
import { EffectOnceDoor } from '../../src/worker/effects/effect-once-door.ts';
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
import { describeSeparateDoor, type SeparateDoorFixture } from './separate-door.ts';
import { describeEffectDoor } from './effect-door.ts';
import type { LedgerReadsFixture } from './ledger-reads.ts';

type Ask = (sql: string) => Promise<readonly Readonly<Record<string, unknown>>[]>;

interface SeparateParts<Tx> {
  readonly adapter: TransactionAdapter<Tx>;
  readonly fences: Fences<Tx>;
  readonly rows: FenceRows;
  readonly ledger: LedgerReadsFixture;
  /** Runs on its own connection; parameters are in the text. */
  readonly ask: Ask;
  readonly conflict: object;
  readonly canInterleave?: false;
}

/** A door whose ledger is one store and whose effects are in another. */
async function separateDoor<Tx>(parts: SeparateParts<Tx>): Promise<SeparateDoorFixture<Tx>> {
  const { adapter, fences, rows, ledger: store, ask, conflict } = parts;
  const { ledger } = store;
  const doorWith = (faultPoint: FaultPoint) => new EffectOnceDoor({ fences, ledger, faultPoint });
  const isMysql = adapter.dialect === 'mysql';
  return {
    ...store,
    rows,
    door: doorWith(noFaults),
    doorWith,
    canInterleave: parts.canInterleave ?? true,
    conflict: () => Object.assign(new Error('try again'), conflict),
    write: async (tx, key) => {
      await adapter.execute(tx, `insert into effect values ('${key}')`, []);
    },
    count: async key => (await ask(`select 1 as one from effect where name = '${key}'`)).length,
    kept: async id => {
      const [fence] = await ask(`select epoch from outlast_fence where task_id = '${id}'`);
      const steps = await ask(`select step from outlast_effect where task_id = '${id}'`);
      return { epoch: fence ? Number(fence['epoch']) : null, steps: steps.length };
    },
    age: async ms => {
      const by = isMysql ? `interval ${ms * 1_000} microsecond` : `interval '${ms} milliseconds'`;
      const shift = (column: string): string => `${column} = ${column} - ${by}`;
      await ask(`update outlast_fence set ${shift('look_at')}, ${shift('updated_at')}`);
      await ask(`update outlast_effect set ${shift('ends_at')}, ${shift('created_at')}`);
    },
  };
}

function suites<Tx>(name: string, make: () => Promise<SeparateParts<Tx>>): void {
  const fixture = async (): Promise<SeparateDoorFixture<Tx>> => await separateDoor(await make());
  describeEffectDoor(name, fixture);
  describeSeparateDoor(name, fixture);
}

const redis = (): Promise<LedgerReadsFixture> => openTestLedger(redisUrl());
const EFFECT = 'create table effect (name varchar(200) not null)';

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
  suites('fromPg, ledger in Redis', async () => await on(fromPg(database.pool), await redis()));
  suites(
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
    db = await openPGliteDatabase({ memory: true });
    await migrate(db);
    await db.query(EFFECT);
  });
  afterAll(() => db.close());
  suites('fromPGlite, ledger in memory', async () => {
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
    suites(`${name}, ledger in Redis`, async () => {
      const driver = open(database.url);
      drivers.push(driver);
      return on(driver.adapter, await redis());
    });
  }
  suites('fromDatabase, ledger in memory', async () =>
    on(
      fromDatabase(async () => db, 'mysql'),
      await makeLedger(),
    ),
  );
});
