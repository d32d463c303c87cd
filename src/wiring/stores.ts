import { composeReads } from '../admin/compose-reads.ts';
import type { ReadModel } from '../admin/read-model.ts';
import {
  checkSchema,
  migrate,
  printMigrations,
  type MigrateReport,
} from '../adapters/postgres/migrate.ts';
import { PostgresAdmissionStore } from '../adapters/postgres/postgres-admission-store.ts';
import { PgDatabase } from '../adapters/postgres/pg-database.ts';
import { PostgresCheckpointStore } from '../adapters/postgres/postgres-checkpoint-store.ts';
import { PostgresControlStore } from '../adapters/postgres/postgres-control-store.ts';
import { noteChords } from '../adapters/postgres/postgres-chord.ts';
import { PostgresBroker } from '../adapters/postgres/postgres-broker.ts';
import { PostgresFenceRows } from '../adapters/postgres/postgres-fence-rows.ts';
import { PostgresGenerationStore } from '../adapters/postgres/postgres-generation-store.ts';
import { PostgresIdempotencyStore } from '../adapters/postgres/postgres-idempotency-store.ts';
import { PostgresLedger } from '../adapters/postgres/postgres-ledger.ts';
import { PostgresLedgerReads } from '../adapters/postgres/postgres-ledger-reads.ts';
import { PostgresOutboxReads } from '../adapters/postgres/postgres-outbox-reads.ts';
import { PostgresOutboxStore } from '../adapters/postgres/postgres-outbox-store.ts';
import { PostgresResultStore } from '../adapters/postgres/postgres-result-store.ts';
import type { SqlDatabase } from '../adapters/postgres/sql-database.ts';
import type { EmbeddedMode } from '../adapters/pglite/open-embedded.ts';
import type { RedisLedgerStores } from '../adapters/redis/open-redis-ledger.ts';
import { isSameKeyspace } from '../adapters/redis/redis-url.ts';
import type { AdmissionStore } from '../admission/admission-store.ts';
import type { Broker } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import type { BrokerTarget } from '../config/broker-target.ts';
import type { DatabaseTarget, OutboxTarget } from '../config/database-url.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { OutboxReads } from '../outbox/outbox-reads.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import type { ResultStore } from '../result/result-store.ts';
import { announcing } from './announcing-broker.ts';
import { faultPointFromEnv } from './fault-point-env.ts';
import type { OutboxApart } from './outbox-apart.ts';
import type { Dialect } from './writer-of.ts';
import type { LedgerParts, Messaging } from './messaging.ts';
import { openBroker } from './open-broker.ts';
import { resultsOf } from './results-of.ts';

/** Every port, on the stores the configuration names. */
export interface Stores {
  readonly db: SqlDatabase;
  readonly outbox: OutboxStore;
  readonly broker: Broker;
  readonly ledger: Ledger;
  /** What operators tell workers; where the ledger is. */
  readonly control: ControlStore;
  /** Large ones. */
  readonly checkpoints: CheckpointStore;
  readonly idempotency: IdempotencyStore;
  readonly results: ResultStore;
  /** Beside the ledger. */
  readonly admission: AdmissionStore;
  readonly outboxReads: OutboxReads;
  readonly ledgerReads: LedgerReads;
  /** Null: the ledger is in the database, and its task rows are the fences. */
  readonly fences: FenceRows | null;
  /** Both in one picture. */
  readonly reads: ReadModel;
  close(): Promise<void>;
}

export interface OpenOptions extends Messaging {
  /** Connections of the pool, where there is one. */
  readonly poolSize?: number;
  /** A statement without an answer for this long has failed. */
  readonly queryTimeoutMs?: number;
  /** What to do about an embedded database: see `openEmbedded`. */
  readonly embedded?: EmbeddedMode;
  readonly createIfMissing?: boolean;
}

/**
 * Connects to the database and nothing else; tables may be missing. Here and below, what not every
 * configuration has is loaded when it is asked for: a command should not wait for what it never calls.
 */
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
  const { openEmbedded } = await import('../adapters/pglite/open-embedded.ts');
  return await openEmbedded(target.folder, {
    mode: options.embedded ?? 'own-or-join',
    createIfMissing: options.createIfMissing ?? true,
  });
}

/** Connects to all that the configuration names, and refuses tables that are not what this version works with. */
export async function openStores(target: OutboxTarget, options: OpenOptions = {}): Promise<Stores> {
  if (target.kind !== 'mysql') return await storesOn(await openChecked(target, options), options);
  return await storesApart(await openMysql(target.url), options);
}

async function openChecked(target: DatabaseTarget, options: OpenOptions): Promise<SqlDatabase> {
  const db = await openDatabase(target, options);
  try {
    // An embedded database is nobody's to administrate: whoever opens it first makes its tables.
    if (target.kind === 'pglite') await migrate(db);
    await checkSchema(db);
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}

export async function openOutboxApart(target: OutboxTarget): Promise<OutboxApart> {
  if (target.kind === 'mysql') return await openMysql(target.url);
  return postgresOutbox(await openChecked(target, {}));
}

async function openMysql(url: string): Promise<OutboxApart> {
  const { openMysqlOutbox } = await import('./mysql-stores.ts');
  return await openMysqlOutbox(url);
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

/** The ports on a database that is open already; it is closed with them, and when they cannot be had. */
export async function storesOn(db: SqlDatabase, options: Messaging = {}): Promise<Stores> {
  if (options.ledger !== undefined) return await storesApart(postgresOutbox(db), options);
  const { broker: parts } = options;
  const outboxReads = new PostgresOutboxReads(db);
  const ledgerReads = new PostgresLedgerReads(db);
  const control = new PostgresControlStore(db);
  const inner = parts === undefined ? new PostgresBroker(db) : await closing(db, openBroker(parts));
  const broker = announcing(inner, messages => noteChords(db, messages));
  return {
    db,
    // A broker apart is published to; only where there is none a row becomes a record by one statement.
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: parts === undefined }),
    broker,
    ledger: new PostgresLedger(db, faultPointFromEnv(process.env)),
    control,
    checkpoints: new PostgresCheckpointStore(db),
    idempotency: new PostgresIdempotencyStore(db),
    results: new PostgresResultStore(db),
    admission: new PostgresAdmissionStore(db),
    outboxReads,
    ledgerReads,
    fences: null,
    reads: composeReads(outboxReads, ledgerReads, control),
    close: async () => {
      await broker.close();
      await db.close();
    },
  };
}

/** The outbox in one place, broker and ledger in others. */
async function storesApart(apart: OutboxApart, { broker, ledger }: Messaging): Promise<Stores> {
  const { db, outbox, reads: outboxReads, results, generations, fences, checkpoints } = apart;
  if (broker === undefined || ledger === undefined) {
    await db.close();
    throw outlastError('ERR_CONFIG_TIER', {
      message: 'MySQL and MariaDB are an outbox only: this needs broker and ledger beside it',
      hint: 'Run it with the broker and the ledger of the configuration.',
      fields: { option: 'database' },
    });
  }
  const inner = await closing(db, openBroker(broker));
  const opened = await closing(
    inner,
    closing(db, openLedger({ ...ledger, generations }, broker.target, inner)),
  );
  const published = announcing(inner, opened.announce);
  return {
    db,
    outbox,
    broker: published,
    ledger: opened.ledger,
    control: opened.control,
    checkpoints,
    idempotency: opened.idempotency,
    results: resultsOf(opened.results, results),
    admission: opened.admission,
    outboxReads,
    ledgerReads: opened.reads,
    fences,
    reads: composeReads(outboxReads, opened.reads, opened.control),
    close: async () => {
      await published.close();
      await opened.close();
      await db.close();
    },
  };
}

async function openLedger(
  settings: LedgerParts & Pick<OutboxApart, 'generations'>,
  target: BrokerTarget,
  broker: Broker,
): Promise<RedisLedgerStores> {
  const { openRedisLedger } = await import('../adapters/redis/open-redis-ledger.ts');
  const { RedisBroker } = await import('../adapters/redis/redis-broker.ts');
  const { url } = settings;
  const options = { ...settings, faultPoint: faultPointFromEnv(process.env) };
  // Where one script reaches both, `begin` lets go of the broker's elements as well.
  const isOne = target.kind === 'redis' && isSameKeyspace(target.url, url);
  return await openRedisLedger(
    url,
    isOne && broker instanceof RedisBroker ? { ...options, consumer: broker.consumer } : options,
  );
}

/** Whoever was opened before is closed when what comes next cannot be had. */
async function closing<T>(before: { close(): Promise<void> }, next: Promise<T>): Promise<T> {
  try {
    return await next;
  } catch (error) {
    await before.close();
    throw error;
  }
}

function postgresOutbox(db: SqlDatabase): OutboxApart {
  return {
    db,
    dialect: 'postgres',
    outbox: new PostgresOutboxStore(db, { movesIntoLedger: false }),
    reads: new PostgresOutboxReads(db),
    results: new PostgresResultStore(db),
    generations: new PostgresGenerationStore(db),
    fences: new PostgresFenceRows(db),
    checkpoints: new PostgresCheckpointStore(db),
  };
}

/** Makes or updates the tables of a database, or of an outbox alone. */
export async function migrateTarget(target: OutboxTarget): Promise<MigrateReport> {
  if (target.kind === 'mysql') {
    const { migrateMysql } = await import('./mysql-stores.ts');
    return await migrateMysql(target.url);
  }
  const db = await openDatabase(target);
  try {
    return await migrate(db);
  } finally {
    await db.close();
  }
}

export async function printMigrationsOf(dialect: Dialect): Promise<string> {
  if (dialect === 'postgres') return printMigrations();
  const { printMysqlMigrations } = await import('./mysql-stores.ts');
  return printMysqlMigrations();
}

export { migrate, type MigrateReport, type OutboxApart };
