import {
  resolveConfig,
  type ConfigFlags,
  type OutlastConfig,
  type ResolvedConfig,
} from '../config/config.ts';
import type {
  EmbeddedAccess,
  LedgerInDatabaseOptions,
  OutboxDatabase,
} from '../adapters/sql/dialect.ts';
import type { OutboxTarget } from '../config/database-target.ts';
import { isEmbedded } from '../config/database-url.ts';
import { DATABASE_ENV, type Env, type SectionOptions } from '../config/from-env.ts';
import { findOutbox } from '../config/outboxes.ts';
import { FolderCheckpointStore } from '../adapters/folder/folder-checkpoint-store.ts';
import { outlastError } from '../errors/error.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import { asItCame } from '../ledger/dead-letter.ts';
import type { ResultStore } from '../result/result-store.ts';
import { resultsOf } from '../result/result-handle.ts';
import { createRuntime } from '../runtime/create-runtime.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { hasSignature } from '../task/keyring.ts';
import { makeRedact, type Redact } from '../task/redact.ts';
import { Events } from '../telemetry/events.ts';
import { silentLogger, type Logger, type LogLevel } from '../telemetry/logger.ts';
import { openTraces } from '../traces/open-traces.ts';
import { brokerParts, ledgerParts } from './messaging.ts';
import { openCeleryChords, OPENERS, PREPARED, type Openers } from './openers.ts';
import { Resources } from './resources.ts';
import { storesOf, withOutbox, type Stores } from './stores.ts';

export interface ContextOptions {
  /** What a command line or `start…()` says over the file and the environment. */
  readonly flags?: ConfigFlags;
  /** @default the environment of this process */
  readonly env?: Env;
  /** Makes the log for a configuration that names none, with the level that it asks for. @default silent */
  readonly makeLog?: (level: LogLevel | null) => Logger;
  /** The process that started this one has logged the warnings of the configuration. */
  readonly isWarned?: boolean;
  /** A named outbox of the configuration, to send to and to look at. @default the one in `database` */
  readonly outbox?: string | undefined;
  /** @default 'create' */
  readonly embedded?: EmbeddedAccess;
  /** Makes or updates the tables of the database. An embedded one has that always. */
  readonly migrates?: boolean;
  /** Parts of the outside world that tests bring themselves. */
  readonly runtime?: Partial<Runtime>;
  readonly openers?: Openers;
  /** All stores at once, whatever the configuration names: those of a test kit. */
  readonly stores?: () => Promise<Stores>;
}

/** An outbox in a database of its own. */
export interface NamedOutbox {
  readonly name: string;
  readonly target: OutboxTarget;
}

/**
 * Resolves a configuration and makes what every part that runs on it shares. Nothing is connected yet: stores are opened when
 * they are first asked for. The caller that opens a context closes it.
 */
export function openContext(file: OutlastConfig = {}, options: ContextOptions = {}): Context {
  const config = resolveConfig(file, options.env ?? process.env, options.flags);
  const log = config.log ?? options.makeLog?.(config.logLevel) ?? silentLogger;
  const events = new Events((error, event) => log.error({ error, event }, 'a listener failed'));
  events.addAll(config.on);
  const traces = openTraces(config, log);
  const traced = traces === null ? {} : { traces };
  const runtime = { ...createRuntime(log, events.emit), ...traced, ...options.runtime };
  if (!options.isWarned) for (const warning of config.warnings) log.warn({}, warning);
  return new Context({ file, options, config, events, runtime });
}

interface ContextParts {
  readonly file: OutlastConfig;
  readonly options: ContextOptions;
  readonly config: ResolvedConfig;
  readonly events: Events;
  readonly runtime: Runtime;
  /** Holds the only handle of an embedded database. */
  readonly holder?: Context | undefined;
}

/** Variables that name a place outside of the process. */
const PLACES: ReadonlySet<string> = new Set([
  DATABASE_ENV,
  'OUTLAST_BROKER_URL',
  'OUTLAST_LEDGER_URL',
  'OUTLAST_WORKER_CHECKPOINT_FOLDER',
]);

/** What the parts of one application, one command or one process share: see `openContext`. */
export class Context {
  readonly config: ResolvedConfig;
  readonly events: Events;
  readonly runtime: Runtime;
  readonly log: Logger;
  /** Makes what people see of arguments; null where the configuration names no redactor. */
  readonly redact: Redact | null;
  /** Null: the outbox is in `database`. */
  readonly outbox: NamedOutbox | null;
  readonly #parts: ContextParts;
  readonly #openers: Openers;
  readonly #resources: Resources;
  #stores: Promise<Stores> | undefined;

  constructor(parts: ContextParts) {
    const { config, events, runtime, options } = parts;
    const { outbox: name } = options;
    this.#parts = parts;
    this.#openers = options.openers ?? OPENERS;
    this.#resources = new Resources(runtime);
    this.config = config;
    this.events = events;
    this.runtime = runtime;
    this.log = runtime.log;
    this.redact = makeLoggedRedact(config, runtime);
    this.outbox = name === undefined ? null : { name, target: findOutbox(config.outboxes, name) };
  }

  /**
   * A context for one service of this process: options of its own and connections of its own, which are closed with it. An
   * embedded database has one handle per process: that one it shares.
   */
  forService(flags: Partial<SectionOptions>): Context {
    const { file, options, events, runtime } = this.#parts;
    const own = { ...options, flags: { ...options.flags, ...flags } };
    const config = resolveConfig(file, options.env ?? process.env, own.flags);
    const holder = isEmbedded(config.database) ? this : undefined;
    return new Context({ file, options: own, config, events, runtime, holder });
  }

  /** A context with the same options on stores that a test brings, under its clock: no URL of the configuration counts. */
  onStores(stores: () => Promise<Stores>, runtime: Partial<Runtime>): Context {
    const { file, options } = this.#parts;
    const { checkpointFolder: _, ...worker } = file.worker ?? {};
    const { broker: __, ledger: ___, outboxes: ____, ...kept } = file;
    const env = Object.entries(options.env ?? process.env).filter(([key]) => !PLACES.has(key));
    return openContext(
      { ...kept, database: 'pglite:./.outlast', worker, on: {} },
      {
        ...options,
        env: Object.fromEntries(env),
        isWarned: true,
        outbox: undefined,
        stores,
        runtime: { log: this.log, emit: this.runtime.emit, ...runtime },
      },
    );
  }

  /** Every port; opened for the first who asks. A failed attempt is not remembered. */
  stores(): Promise<Stores> {
    this.#stores ??= this.#openStores().catch((error: unknown) => {
      this.#stores = undefined;
      throw error;
    });
    return this.#stores;
  }

  /** What an operator works through: the ledger, and the outbox of this context. */
  async adminStores(): Promise<Stores> {
    const stores = await this.stores();
    return this.outbox === null ? stores : withOutbox(stores, await this.outboxDatabase());
  }

  /** Where tasks are written: needs neither broker nor ledger. */
  outboxDatabase(): Promise<OutboxDatabase> {
    if (this.outbox === null) return this.#database();
    const { target } = this.outbox;
    return this.#resources.get('outbox', () => this.#openers.database(target, PREPARED));
  }

  /** Looks into a named outbox for what the ledger does not know yet. */
  async results(): Promise<ResultStore> {
    const { results } = await this.stores();
    return this.outbox === null
      ? results
      : resultsOf(results, (await this.outboxDatabase()).results);
  }

  /** Where large checkpoints go: the folder of the configuration, or the database. */
  async checkpoints(): Promise<CheckpointStore> {
    const { checkpointFolder } = this.config.worker;
    if (checkpointFolder === null) return (await this.stores()).checkpoints;
    const folder = new FolderCheckpointStore(checkpointFolder);
    await folder.check();
    return folder;
  }

  /** Makes sure that threads and processes of this one can reach an embedded database: one process alone holds it. */
  async shareEmbedded(): Promise<void> {
    const { database } = this.config;
    if (!isEmbedded(database) || (await isServed(database.folder))) return;
    await this.#database('own');
    if (await isServed(database.folder)) return;
    throw outlastError('ERR_CONFIG_TIER', {
      message: `this process has opened ${database.folder} for itself alone, so handlers in threads and processes cannot reach it`,
      hint: 'Start the worker before anything is sent, use `outlast dev`, or run these handlers inline.',
      fields: { option: 'mode' },
    });
  }

  /** Closes what was opened, the last first, each within a bound. A second call waits for the same end. */
  close(): Promise<void> {
    this.#stores = undefined;
    return this.#resources.close();
  }

  #celeryChords(): LedgerInDatabaseOptions['celeryChords'] {
    const { celery, keyring } = this.config;
    const { chordBackend } = celery;
    // What is unsigned is counted under an id that Celery does not know, and its sender chose the ids of its results.
    if (chordBackend === null || keyring.isSigning) return undefined;
    const open = async () =>
      await this.#resources.get('celery chords', () => openCeleryChords(chordBackend));
    return {
      announce: async chords => await (await open()).announce(chords),
      join: async part => await (await open()).join(part),
      tell: async (...end) => await (await open()).tell(...end),
      store: async replies => await (await open()).store(replies),
    };
  }

  async #openStores(): Promise<Stores> {
    const { stores } = this.#parts.options;
    if (stores) return await stores();
    const { keyring } = this.config;
    const { faultPoint, clock } = this.runtime;
    const renew = keyring.isSigning
      ? (message: Envelope) => keyring.renewed(message, clock.now())
      : undefined;
    const database = await this.#database();
    // What is unsigned is counted separately, and seen from its first part on.
    const isNoted = keyring.isSigning ? hasSignature : undefined;
    const shared = { database, renew, isNoted, faultPoint };
    const parts = brokerParts(this.config, this.log);
    if (parts === null) return storesOf({ ...shared, broker: null, ledger: null });
    const broker = await this.#resources.get('broker', () => this.#openers.broker(parts));
    // A worker verifies what comes from a broker before the ledger has its id: so that may be the first one again.
    const restored = (message: Envelope): Envelope => {
      const first = asItCame(message);
      return renew?.(first) ?? first;
    };
    const separate = { ...shared, renew: restored, broker };
    const settings = ledgerParts(this.config);
    if (settings === null) {
      const celeryChords = this.#celeryChords();
      return storesOf({ ...separate, ledger: null, celeryChords });
    }
    const { generations } = database;
    const beside = { target: parts.target, broker };
    const ledger = await this.#resources.get('ledger', () =>
      this.#openers.ledger({ ...settings, generations, beside, faultPoint }),
    );
    return storesOf({ ...separate, ledger });
  }

  #database(embedded = this.#parts.options.embedded ?? 'create'): Promise<OutboxDatabase> {
    const { holder, options } = this.#parts;
    if (holder) return holder.#database(embedded);
    const { migrates = false } = options;
    return this.#resources.get('database', () =>
      this.#openers.database(this.config.database, { embedded, migrates }),
    );
  }
}

async function isServed(folder: string): Promise<boolean> {
  const { readHolder } = await import('../adapters/pglite/folder-lock.ts');
  return ((await readHolder(folder))?.endpoint ?? null) !== null;
}

/** Failures of the redactor are emitted, and so logged. */
function makeLoggedRedact({ redact }: ResolvedConfig, { emit }: Runtime): Redact | null {
  if (redact === null) return null;
  return makeRedact(redact, (name, error) => {
    emit('redaction:failed', { name, error });
  });
}
