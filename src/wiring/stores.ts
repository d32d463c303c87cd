import { composeReads } from '../admin/compose-reads.ts';
import type { ReadModel } from '../admin/read-model.ts';
import {
  checkSchema,
  migrate,
  printMigrations,
  type MigrateReport,
} from '../adapters/postgres/migrate.ts';
import { PgDatabase } from '../adapters/postgres/pg-database.ts';
import { PostgresCheckpointStore } from '../adapters/postgres/postgres-checkpoint-store.ts';
import { PostgresControlStore } from '../adapters/postgres/postgres-control-store.ts';
import { PostgresBroker } from '../adapters/postgres/postgres-broker.ts';
import { PostgresLedger } from '../adapters/postgres/postgres-ledger.ts';
import { PostgresLedgerReads } from '../adapters/postgres/postgres-ledger-reads.ts';
import { PostgresOutboxReads } from '../adapters/postgres/postgres-outbox-reads.ts';
import { PostgresOutboxStore } from '../adapters/postgres/postgres-outbox-store.ts';
import { PostgresResultStore } from '../adapters/postgres/postgres-result-store.ts';
import type { SqlDatabase } from '../adapters/postgres/sql-database.ts';
import { openEmbedded, type EmbeddedMode } from '../adapters/pglite/open-embedded.ts';
import type { Broker } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import type { DatabaseTarget, OutboxTarget } from '../config/database-url.ts';
import type { LedgerTarget } from '../config/messaging.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { ResultStore } from '../result/result-store.ts';
import { migrateMysql, openMysqlOutbox, printMysqlMigrations } from './mysql-stores.ts';
import type { OutboxApart } from './outbox-apart.ts';
import type { Dialect } from './writer-of.ts';
import { openBroker, type BrokerParts } from './open-broker.ts';

/** Every port, on the stores the configuration names. */
export interface Stores {
  readonly db: SqlDatabase;
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  readonly ledger: Ledger;
  /** What operators tell workers; where the ledger is. */
  readonly control: ControlStore;
  /** Large checkpoints; null where the database cannot keep them. */
  readonly checkpoints: CheckpointStore | null;
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
  /** The broker, where it is not the database. */
  readonly broker?: BrokerParts;
  /** @default the database */
  readonly ledger?: LedgerTarget;
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
export async function openStores(target: OutboxTarget, options: OpenOptions = {}): Promise<Stores> {
  if (target.kind === 'mysql') return await mysqlStores(target.url, options);
  const db = await openDatabase(target, options);
  try {
    // An embedded database is nobody's to administrate: whoever opens it first makes its tables.
    if (target.kind === 'pglite') await migrate(db);
    await checkSchema(db);
    return await storesOn(db, options);
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
    reads: composeReads(reads, stores.ledgerReads, stores.control),
  };
}

/** The ports on a database that is open already. */
export async function storesOn(
  db: SqlDatabase,
  { broker: parts, ledger }: Pick<OpenOptions, 'broker' | 'ledger'> = {},
): Promise<Stores> {
  const outboxReads = new PostgresOutboxReads(db);
  const ledgerReads = new PostgresLedgerReads(db);
  const control = new PostgresControlStore(db);
  const broker = parts === undefined ? new PostgresBroker(db) : await openBroker(parts);
  const stores: Stores = {
    db,
    // A broker apart is published to; only where there is none a row becomes a record by one statement.
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: parts === undefined }),
    broker,
    ledger: new PostgresLedger(db),
    control,
    checkpoints: new PostgresCheckpointStore(db),
    results: new PostgresResultStore(db),
    outboxReads,
    ledgerReads,
    reads: composeReads(outboxReads, ledgerReads, control),
    close: async () => {
      await broker.close();
      await db.close();
    },
  };
  return ledger?.kind === 'redis' ? withoutLedger(stores) : stores;
}

/** The outbox in MySQL or MariaDB, and a broker: the ledger is elsewhere. */
async function mysqlStores(url: string, { broker: parts }: OpenOptions): Promise<Stores> {
  const { db, outbox, reads: outboxReads } = await openMysqlOutbox(url);
  try {
    if (parts === undefined) throw outboxOnly();
    const broker = await openBroker(parts);
    const close = async (): Promise<void> => {
      await broker.close();
      await db.close();
    };
    return withoutLedger({ db, outbox, outboxReads, broker, checkpoints: null, close });
  } catch (error) {
    await db.close();
    throw error;
  }
}

function outboxOnly(): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: 'MySQL and MariaDB are an outbox only: this needs the stores beside it',
    hint: 'Run it with the broker of the configuration.',
    fields: { option: 'database' },
  });
}

/** Whoever only sends and relays needs no ledger; whoever asks for one is told that there is none. */
function withoutLedger(
  stores: Omit<Stores, 'ledger' | 'control' | 'results' | 'ledgerReads' | 'reads'>,
): Stores {
  const refuse = (): never => {
    throw outlastError('ERR_CONFIG_TIER', {
      message: 'the ledger is in Redis, and a ledger in Redis is not part of this version',
      hint: 'Workers, results and cancelling need one: use postgres:// as `database` with amqp://… or nothing as `broker`.',
      fields: { option: 'ledger' },
    });
  };
  const missing = ['ledger', 'control', 'results', 'ledgerReads', 'reads'].map(
    port => [port, { get: refuse, enumerable: true }] as const,
  );
  return Object.defineProperties({ ...stores }, Object.fromEntries(missing)) as Stores;
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
