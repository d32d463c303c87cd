import { composeReads } from '../admin/compose-reads.ts';
import type { ReadModel } from '../admin/read-model.ts';
import {
  checkSchema,
  migrate,
  printMigrations,
  type MigrateReport,
} from '../adapters/postgres/migrate.ts';
import { PgDatabase } from '../adapters/postgres/pg-database.ts';
import { PostgresBroker } from '../adapters/postgres/postgres-broker.ts';
import { PostgresLedger } from '../adapters/postgres/postgres-ledger.ts';
import { PostgresLedgerReads } from '../adapters/postgres/postgres-ledger-reads.ts';
import { PostgresOutboxReads } from '../adapters/postgres/postgres-outbox-reads.ts';
import { PostgresOutboxStore } from '../adapters/postgres/postgres-outbox-store.ts';
import { PostgresResultStore } from '../adapters/postgres/postgres-result-store.ts';
import type { SqlDatabase } from '../adapters/postgres/sql-database.ts';
import { openEmbedded, type EmbeddedMode } from '../adapters/pglite/open-embedded.ts';
import type { Broker } from '../broker/broker.ts';
import type { DatabaseTarget, OutboxTarget } from '../config/database-url.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { ResultStore } from '../result/result-store.ts';
import { migrateMysql, openMysqlOutbox, printMysqlMigrations } from './mysql-stores.ts';
import type { OutboxApart } from './outbox-apart.ts';
import type { Dialect } from './writer-of.ts';

/** Every port, on the stores the configuration names. */
export interface Stores {
  readonly db: SqlDatabase;
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  readonly ledger: Ledger;
  readonly results: ResultStore;
  readonly outboxReads: OutboxReads;
  readonly ledgerReads: LedgerReads;
  /** Both in one picture. */
  readonly reads: ReadModel;
  close(): Promise<void>;
}

export interface OpenOptions {
  /** Connections of the pool, where there is one. */
  readonly poolSize?: number;
  /** A statement without an answer for this long has failed. */
  readonly queryTimeoutMs?: number;
  /** What to do about an embedded database: see `openEmbedded`. */
  readonly embedded?: EmbeddedMode;
  readonly createIfMissing?: boolean;
}

/** Connects to the database and nothing else; tables may be missing. */
export async function openDatabase(
  target: DatabaseTarget,
  options: OpenOptions = {},
): Promise<SqlDatabase> {
  if (target.kind === 'postgres') {
    return await PgDatabase.open({
      url: target.url,
      poolSize: options.poolSize ?? 10,
      queryTimeoutMs: options.queryTimeoutMs ?? 35_000,
    });
  }
  return await openEmbedded(target.folder, {
    mode: options.embedded ?? 'own-or-join',
    createIfMissing: options.createIfMissing ?? true,
  });
}

/** Connects, and refuses a database whose tables are not what this version works with. */
export async function openStores(
  target: DatabaseTarget,
  options: OpenOptions = {},
): Promise<Stores> {
  const db = await openDatabase(target, options);
  try {
    // An embedded database is nobody's to administrate: whoever opens it first makes its tables.
    if (target.kind === 'pglite') await migrate(db);
    await checkSchema(db);
    return storesOn(db);
  } catch (error) {
    await db.close();
    throw error;
  }
}

export async function openOutboxApart(target: OutboxTarget): Promise<OutboxApart> {
  if (target.kind === 'mysql') return await openMysqlOutbox(target.url);
  const { db, results, outboxReads: reads } = await openStores(target);
  const outbox = new PostgresOutboxStore(db, { movesIntoLedger: false });
  return { db, dialect: 'postgres', results, reads, outbox };
}

/** The same stores with another outbox in front of the ledger. */
export function withOutbox(stores: Stores, { outbox, reads }: OutboxApart): Stores {
  return {
    ...stores,
    outbox,
    outboxReads: reads,
    reads: composeReads(reads, stores.ledgerReads),
  };
}

/** The ports on a database that is open already. */
export function storesOn(db: SqlDatabase): Stores {
  const outboxReads = new PostgresOutboxReads(db);
  const ledgerReads = new PostgresLedgerReads(db);
  return {
    db,
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: true }),
    broker: new PostgresBroker(db),
    ledger: new PostgresLedger(db),
    results: new PostgresResultStore(db),
    outboxReads,
    ledgerReads,
    reads: composeReads(outboxReads, ledgerReads),
    close: () => db.close(),
  };
}

/** Makes or updates the tables of a database, or of an outbox alone. */
export async function migrateTarget(target: OutboxTarget): Promise<MigrateReport> {
  if (target.kind === 'mysql') return await migrateMysql(target.url);
  const db = await openDatabase(target);
  try {
    return await migrate(db);
  } finally {
    await db.close();
  }
}

export function printMigrationsOf(dialect: Dialect): string {
  return dialect === 'mysql' ? printMysqlMigrations() : printMigrations();
}

export { migrate, type MigrateReport, type OutboxApart };
