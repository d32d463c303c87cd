import { outlastError } from '../errors/error.ts';
import { resolveConfig, type OutlastConfig, type ResolvedConfig } from '../config/config.ts';
import type { SqlDatabase } from '../adapters/postgres/sql-database.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import { findOutbox } from '../config/outboxes.ts';
import type { ResultStore } from '../result/result-store.ts';
import { messagingOf } from './messaging.ts';
import { resultsOf } from './results-of.ts';
import { createRuntime } from './runtime.ts';
import {
  openOutboxApart,
  openStores,
  withOutbox,
  type OpenOptions,
  type OutboxApart,
  type Stores,
} from './stores.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { Events } from '../telemetry/events.ts';
import { silentLogger, type Logger } from '../telemetry/logger.ts';
import { ROOM_ENV } from './room-spec.ts';
import { SPEC_ENV } from './worker-spec.ts';

// A worker process reaches an embedded database through the process that holds it. If that one is
// killed, its children must not take the folder and keep the next start out.
const OPEN_OPTIONS: OpenOptions =
  SPEC_ENV in process.env || ROOM_ENV in process.env
    ? { embedded: 'join', createIfMissing: false }
    : {};

/** What the parts of one instance share: configuration, events, and connections that are opened when first needed. */
export class Internals {
  readonly file: OutlastConfig;
  readonly config: ResolvedConfig;
  readonly events: Events;
  readonly log: Logger;
  readonly runtime: Runtime;
  /** The database of the outbox, where it is not the default one. */
  readonly outboxTarget: OutboxTarget | null;
  #stores: Promise<Stores> | undefined;
  #apart: Promise<OutboxApart> | undefined;
  #closed: Promise<void> | undefined;

  constructor(file: OutlastConfig, outbox?: string, given?: Stores) {
    this.file = file;
    this.config = resolveConfig(file, process.env);
    this.outboxTarget = outbox === undefined ? null : findOutbox(this.config.outboxes, outbox);
    this.log = this.config.log ?? silentLogger;
    this.events = new Events((error, name) =>
      this.log.error({ error, event: name }, 'a listener failed'),
    );
    this.events.addAll(this.config.on);
    this.runtime = createRuntime(this.log, this.events.emit);
    for (const warning of this.config.warnings) this.log.warn({}, warning);
    if (given) this.#stores = Promise.resolve(given);
  }

  /** `options` count only for whoever is the first to ask. */
  stores(options: OpenOptions = OPEN_OPTIONS): Promise<Stores> {
    if (this.#closed) return Promise.reject(closed());
    // A failed attempt is not remembered: the next caller may find the database up.
    this.#stores ??= this.openStores(options).catch((error: unknown) => {
      this.#stores = undefined;
      throw error;
    });
    return this.#stores;
  }

  /** Connections for somebody of his own, who closes them; `config` where he has options of his own. */
  openStores(
    options: OpenOptions = OPEN_OPTIONS,
    config: ResolvedConfig = this.config,
  ): Promise<Stores> {
    return openStores(config.database, { ...options, ...messagingOf(config, this.log) });
  }

  /** Null where the outbox is the default one. */
  outboxApart(): Promise<OutboxApart> | null {
    if (this.outboxTarget === null) return null;
    if (this.#closed) return Promise.reject(closed());
    this.#apart ??= openOutboxApart(this.outboxTarget).catch((error: unknown) => {
      this.#apart = undefined;
      throw error;
    });
    return this.#apart;
  }

  /** What an operator works through: the ledger, and the outbox of this instance. */
  async adminStores(): Promise<Stores> {
    const stores = await this.stores();
    const apart = await this.outboxApart();
    return apart === null ? stores : withOutbox(stores, apart);
  }

  /** Where tasks are written. */
  async outboxDatabase(): Promise<Pick<SqlDatabase, 'transaction'>> {
    return (await (this.outboxApart() ?? this.stores())).db;
  }

  /** Looks into an outbox apart for what the ledger does not know yet. */
  async results(): Promise<ResultStore> {
    const { results } = await this.stores();
    const apart = await this.outboxApart();
    return apart === null ? results : resultsOf(results, apart.results);
  }

  /** Whoever closes a second time waits for the same end. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const stores = await this.#stores?.catch(() => undefined);
    this.#stores = undefined;
    await stores?.close();
    const apart = await this.#apart?.catch(() => undefined);
    await apart?.db.close();
  }
}

function closed(): Error {
  return outlastError('ERR_CLOSED', {
    message: 'this Outlast was closed',
    hint: 'Create a new one, or close it later.',
    fields: {},
  });
}
