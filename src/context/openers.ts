import type { ServedStore } from '../ledger/tier-store.ts';
import type { OpenCeleryChords } from '../adapters/redis/redis-chords.ts';
import type {
  OpenRedisLedgerOptions,
  RedisLedgerStores,
} from '../adapters/redis/open-redis-ledger.ts';
import { isSameKeyspace } from '../adapters/redis/redis-url.ts';
import type {
  Dialect,
  EmbeddedAccess,
  LedgerInDatabase,
  LedgerInDatabaseOptions,
  MigrateOptions,
  MigrateReport,
  OpenOptions,
  OutboxDatabase,
  UninstallReport,
} from '../adapters/sql/dialect.ts';
import type { Broker } from '../broker/broker.ts';
import type { Fleet, FleetOptions } from '../broker/fleet.ts';
import type { BrokerTarget } from '../config/broker-target.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { dialectRow, isEmbedded, outboxOnly } from '../config/database-url.ts';
import type { HeartbeatLink } from '../worker/lease/hedged-heartbeat.ts';
import { type LedgerParts, ledgerParts } from './messaging.ts';
import { type BrokerParts, openBroker } from './open-broker.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import type { SpareLink } from '../runtime/hedged-store.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';

const POOL_SIZE = 10;
const QUERY_TIMEOUT_MS = 35_000;

/** The code of a dialect; here and below, what not every configuration has is loaded when it is asked for. */
export async function loadDialect(target: OutboxTarget): Promise<Dialect> {
  const { dialect } = await dialectRow(target).load();
  return target.schema === undefined ? dialect : (dialect.inSchema?.(target.schema) ?? dialect);
}

/** Connects to the database and nothing else; tables may be missing. */
export async function openDatabase(
  target: OutboxTarget,
  options: Pick<OpenOptions, 'embedded'> & Partial<OpenOptions>,
): Promise<OutboxDatabase> {
  const dialect = await loadDialect(target);
  const defaults = { poolSize: POOL_SIZE, queryTimeoutMs: QUERY_TIMEOUT_MS };
  return await dialect.open(target, { ...defaults, ...options });
}

export interface OutboxOptions {
  readonly embedded: EmbeddedAccess;
  /** Makes or updates the tables of a server, too. */
  readonly migrates: boolean;
}

/** For a database on a server that others have prepared. */
export const PREPARED: OutboxOptions = { embedded: 'existing', migrates: false };

/** Connects to a database with an outbox, and refuses tables that are not what this version works with. */
export async function openOutboxDatabase(
  target: OutboxTarget,
  { embedded, migrates }: OutboxOptions = PREPARED,
): Promise<OutboxDatabase> {
  const database = await openDatabase(target, { embedded });
  try {
    // An embedded database has no administrator: the first process that opens it makes its tables.
    if (migrates || isEmbedded(target)) await database.migrate();
    await database.checkSchema();
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** The ports of the ledger in a database. */
export function ledgerIn(
  database: OutboxDatabase,
  options: LedgerInDatabaseOptions = { movesIntoLedger: false },
): LedgerInDatabase {
  if (database.ledger === null) throw outboxOnly();
  return database.ledger(options);
}

export interface LedgerOptions extends LedgerParts, Pick<OpenRedisLedgerOptions, 'faultPoint'> {
  readonly generations: OpenRedisLedgerOptions['generations'];
  /** The broker of this process: where one script reaches both, `begin` lets go of its elements as well. */
  readonly beside: { readonly target: BrokerTarget; readonly broker: Broker } | null;
}

/** A ledger beside the database; it connects when it is first asked for something. */
export async function openLedger({
  url,
  beside,
  ...options
}: LedgerOptions): Promise<RedisLedgerStores> {
  const { openRedisLedger } = await import('../adapters/redis/open-redis-ledger.ts');
  const isOne = beside?.target.kind === 'redis' && isSameKeyspace(beside.target.url, url);
  if (!isOne) return await openRedisLedger(url, options);
  const { RedisBroker } = await import('../adapters/redis/redis-broker.ts');
  const consumer = beside.broker instanceof RedisBroker ? { consumer: beside.broker.consumer } : {};
  return await openRedisLedger(url, { ...options, ...consumer });
}

/** Where Celery counts chords; it connects when it is first asked for something. */
export async function openCeleryChords(url: string): Promise<OpenCeleryChords> {
  const adapter = await import('../adapters/redis/redis-chords.ts');
  return await adapter.openCeleryChords(url);
}

/** Where a lease is kept. */
export type LeaseTarget =
  | { readonly kind: 'database'; readonly database: OutboxTarget }
  | { readonly kind: 'redis'; readonly ledger: LedgerParts };

/** One connection that renews leases, and nothing else. */
export async function openHeartbeatLink(
  target: LeaseTarget,
  queryTimeoutMs: number,
): Promise<HeartbeatLink> {
  if (target.kind === 'database') {
    const options = { embedded: 'join', poolSize: 1, queryTimeoutMs } as const;
    const database = await openDatabase(target.database, options);
    const { ledger } = ledgerIn(database);
    return { renew: (name, lists) => ledger.renew(name, lists), close: () => database.close() };
  }
  // Beats compare no generation: an incarnation that is not there says it all.
  const opened = await openLedger({ ...target.ledger, generations: null, beside: null });
  return { renew: name => opened.ledger.renew(name), close: () => opened.close() };
}

/** The way of Celery's tools to a worker; null where they do not reach: they know no Redis Cluster. */
export async function openFleet(
  target: BrokerTarget,
  options: FleetOptions,
): Promise<Fleet | null> {
  switch (target.kind) {
    case 'rabbitmq': {
      const { RabbitFleet } = await import('../adapters/rabbitmq/rabbitmq-fleet.ts');
      return new RabbitFleet(target, options);
    }
    case 'redis': {
      const { openRedisFleet } = await import('../adapters/redis/redis-fleet.ts');
      return await openRedisFleet(target.url, options);
    }
  }
}

/** How the parts of a tier are opened. */
export interface Openers {
  readonly database: (target: OutboxTarget, options: OutboxOptions) => Promise<OutboxDatabase>;
  readonly broker: (parts: BrokerParts) => Promise<Broker>;
  readonly ledger: (options: LedgerOptions) => Promise<RedisLedgerStores>;
}

export const OPENERS: Openers = {
  database: openOutboxDatabase,
  broker: openBroker,
  ledger: openLedger,
};

/**
 * Makes or updates the tables of a database, or of an outbox alone, and notes which broker and ledger serve beside it: a sender
 * that is the first to start, and is not told of the broker, must not write past the relays.
 */
export async function migrateTarget(
  target: OutboxTarget,
  options: MigrateOptions = {},
  serving: readonly ServedStore[] = [],
): Promise<MigrateReport> {
  const database = await openDatabase(target, { embedded: 'create' });
  try {
    const report = await database.migrate(options);
    await database.tiers?.note(serving);
    return report;
  } finally {
    await database.close();
  }
}

/** Drops the tables of a database, or of an outbox alone, unless tasks are left there. */
export async function uninstallTarget(
  target: OutboxTarget,
  options: MigrateOptions = {},
): Promise<UninstallReport> {
  const database = await openDatabase(target, { embedded: 'existing' });
  try {
    return await database.uninstall(options);
  } finally {
    await database.close();
  }
}

type Open<S> = (() => Promise<SpareLink<S>>) | null;

/** For a moment of trouble: few connections, and an answer that comes later than a lease lasts is none. */
const SPARE = { embedded: 'existing', poolSize: 2, queryTimeoutMs: 5_000 } as const;

/** A second way to an outbox. Null: an embedded database is in this process, or reached through one that is. */
export function spareOutbox(target: OutboxTarget): Open<OutboxStore> {
  if (isEmbedded(target)) return null;
  return async () => {
    const database = await openOutboxDatabase(target);
    return { store: database.outbox, close: () => database.close() };
  };
}

/** A second way to the keys, which are where the ledger is. */
export function spareIdempotency(
  config: Pick<ResolvedConfig, 'database' | 'broker' | 'ledger' | 'worker'>,
): Open<IdempotencyStore> {
  const { database } = config;
  const parts = ledgerParts(config);
  if (parts !== null)
    return async () => {
      const opened = await openLedger({ ...parts, generations: null, beside: null });
      return { store: opened.idempotency, close: () => opened.close() };
    };
  if (isEmbedded(database)) return null;
  return async () => {
    const opened = await openDatabase(database, SPARE);
    return { store: ledgerIn(opened).idempotency, close: () => opened.close() };
  };
}

/**
 * Every database in which effects may be kept under an idempotency key: the main one, and those of the outboxes. A key says
 * nothing about where its effects are. One that cannot be asked is an error: nothing may be called reset while it is not.
 */
export function effectDatabases(
  main: Pick<FenceRows, 'forgetKey'>,
  outboxes: Readonly<Record<string, OutboxTarget>>,
): Pick<FenceRows, 'forgetKey'> {
  return {
    forgetKey: async key => {
      let isForgotten = await main.forgetKey(key);
      for (const target of Object.values(outboxes)) {
        const database = await openOutboxDatabase(target);
        try {
          isForgotten = (await database.fences.forgetKey(key)) || isForgotten;
        } finally {
          await database.close();
        }
      }
      return isForgotten;
    },
  };
}
