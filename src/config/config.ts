import { outlastError } from '../errors/error.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Redactor } from '../task/redact.ts';
import type { EventListeners } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import { readAdmission, type AdmissionOptions, type AdmissionPattern } from './admission.ts';
import type { BrokerOptions, BrokerTarget } from './broker-target.ts';
import { checkRelations, fleetWarnings } from './check-relations.ts';
import { maskUrl, parseDatabaseUrl, type OutboxTarget } from './database-url.ts';
import { DATABASE_ENV, optionsFromEnv, type Env, type SectionOptions } from './from-env.ts';
import { readMessaging, type LedgerTarget, type Messaging } from './messaging.ts';
import { envOf, flagOf, OPTION_TABLE } from './option-table.ts';
import {
  asRecord,
  dropUndefined,
  refuseUnknown,
  type NameOf,
  type SectionName,
} from './options.ts';
import { readOutboxes } from './outboxes.ts';
import {
  RELAY_DEFAULTS,
  resolveRelayOptions,
  type RelayOptions,
  type ResolvedRelayOptions,
} from './relay-options.ts';
import {
  RESURRECTOR_DEFAULTS,
  resolveResurrectorOptions,
  type ResolvedResurrectorOptions,
  type ResurrectorOptions,
} from './resurrector-options.ts';
import { readRetention, type ResolvedRetention, type RetentionOptions } from './retention.ts';
import { readSigning } from './signing.ts';
import { CONFIG_DEFAULTS, readTopLevel, TOP_LEVEL_OPTIONS } from './top-level.ts';
import {
  resolveWorkerOptions,
  WORKER_DEFAULTS,
  type ResolvedWorkerOptions,
  type WorkerOptions,
} from './worker-options.ts';

export { maskUrl } from './database-url.ts';

/** What a user writes in `outlast.config.ts` or gives to `createOutlast`. */
export interface OutlastConfig {
  /**
   * Where tasks live: `pglite:./folder`, `postgres://…` or `postgresql://…`; with a `broker` and a `ledger` elsewhere
   * also `mysql://…` or `mariadb://…`.
   * @default 'pglite:./.outlast'
   */
  readonly database?: string | undefined;
  /**
   * Where the relay publishes and workers consume: `amqp://…`, `redis://…`, or options with a URL.
   * @default the database
   */
  readonly broker?: string | BrokerOptions | undefined;
  /**
   * Where it is kept who runs what, and results: `redis://…`.
   * @default the broker if it is Redis, else the database
   */
  readonly ledger?: string | undefined;
  /**
   * Outboxes beside the default one, by name: tables in other PostgreSQL, MySQL or MariaDB databases whose
   * tasks a relay of their own publishes where those of the default one go.
   * @default {}
   */
  readonly outboxes?: Readonly<Record<string, { readonly database: string }>> | undefined;
  /**
   * Modules whose exported handlers a worker runs: paths relative to the config file, with `*` and
   * `**`.
   * @default []
   */
  readonly tasks?: readonly string[] | undefined;
  /** Refuse a `send` outside a transaction; false: warn. @default true */
  readonly strict?: boolean | undefined;
  /**
   * Task names, with `*`, whose `send` goes straight to the broker and so escapes a rollback.
   * @default []
   */
  readonly excludeTasks?: readonly string[] | undefined;
  /** Largest body of a task, in bytes. @default 1048576 */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * Makes the copy of a task's arguments that people see, in dead letters and wherever else they are shown. It gets a
   * copy of its own and must return at once; what is sent and run stays as it is. If it throws, nothing is shown.
   * @default none
   */
  readonly redact?: Redactor | undefined;
  /**
   * Secrets as `id:hex` or `id:base64`: the first one signs what is sent, all of them verify. With one, workers run
   * signed tasks only. Every process that sends, works or recovers needs them.
   * @default []
   */
  readonly signingKeys?: readonly string[] | undefined;
  /** Queues whose tasks need no signature, because others send to them. @default [] */
  readonly unsignedQueues?: readonly string[] | undefined;
  readonly relay?: RelayOptions | undefined;
  readonly worker?: WorkerOptions | undefined;
  readonly resurrector?: ResurrectorOptions | undefined;
  /** What a resurrector deletes by itself: `{ deadLetters: { olderThanDead: '30d' } }`. @default nothing */
  readonly retention?: RetentionOptions | undefined;
  /**
   * How much may come in, and how many may run at once, by tenant, task or queue:
   * `{ 'tenant:*': { rate: { limit: 50, per: '1s' } }, 'queue:billing': { concurrency: 200 } }`. @default {}
   */
  readonly admission?: AdmissionOptions | undefined;
  /** Listeners for events, called in the process where the event happens. */
  readonly on?: EventListeners | undefined;
  /** Takes the place of Outlast's own log; a pino fits. */
  readonly log?: Logger | undefined;
}

/**
 * Gives a config file its types; the object comes back as it is.
 *
 * @example
 * export default defineConfig({ tasks: ['./src/handlers/*'], worker: { concurrency: 20 } });
 */
export function defineConfig(config: OutlastConfig): OutlastConfig {
  return config;
}

/** Where a value came from, weakest last. */
export type Source = 'flag' | 'env' | 'file' | 'default';

/** One value as it was given, for `config show`. Secrets in it are masked. */
export interface Setting {
  readonly value: unknown;
  readonly source: Source;
}

/** What the command line, or an option of `start…()`, says. URLs are never flags. */
export interface ConfigFlags extends Partial<SectionOptions> {
  /**
   * Where the config file is; a relative database folder in it starts there.
   * @default the working directory
   */
  readonly folder?: string;
}

/** The configuration a process runs on. */
export interface ResolvedConfig {
  readonly database: OutboxTarget;
  /** Null: the database. */
  readonly broker: BrokerTarget | null;
  readonly ledger: LedgerTarget;
  /** Outboxes in other databases, by name. */
  readonly outboxes: Readonly<Record<string, OutboxTarget>>;
  readonly tasks: readonly string[];
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
  readonly redact: Redactor | null;
  readonly keyring: Keyring;
  readonly relay: ResolvedRelayOptions;
  readonly worker: ResolvedWorkerOptions;
  readonly resurrector: ResolvedResurrectorOptions;
  readonly retention: ResolvedRetention;
  readonly admission: readonly AdmissionPattern[];
  readonly on: EventListeners;
  readonly log: Logger | null;
  /** By dotted key: `relay.batchSize`. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** Legal, but seldom meant. */
  readonly warnings: readonly string[];
}

/** Puts flags over variables over the file over the defaults, and checks what comes out. */
export function resolveConfig(
  file: OutlastConfig = {},
  env: Env = {},
  flags: ConfigFlags = {},
): ResolvedConfig {
  const config = dropUndefined(asRecord(file, 'config'));
  refuseResultStore(config, env);
  refuseUnknown(Object.keys(config), TOP_LEVEL_OPTIONS, key => key);
  const fromEnv = optionsFromEnv(env);
  const settings: Record<string, Setting> = {};
  const database = readDatabase(config, fromEnv.database, flags.folder ?? process.cwd());
  settings['database'] = { value: maskUrl(database.target.url), source: database.source };
  const messaging = readMessaging(config, env, database.target);
  Object.assign(settings, messagingSettings(messaging));
  const top = readTopLevel(config);
  for (const key of ['tasks', 'strict', 'excludeTasks', 'maxPayloadBytes'] as const) {
    settings[key] = { value: top[key], source: key in config ? 'file' : 'default' };
  }
  const signing = readSigning(config, env);
  const keyIds = signing.keyIds.map(id => `${id}:***`);
  settings['signingKeys'] = { value: keyIds, source: signing.keysSource };
  const { unsignedQueues } = signing;
  const outboxes = readOutboxes(config['outboxes'], flags.folder ?? process.cwd());
  for (const [name, { url }] of Object.entries(outboxes)) {
    settings[`outboxes.${name}`] = { value: maskUrl(url), source: 'file' };
  }
  const retention = readRetention(config['retention']);
  const admission = readAdmission(config['admission']);
  const shown = { unsignedQueues, retention: config['retention'], admission: config['admission'] };
  for (const [key, value] of Object.entries(shown)) {
    settings[key] = { value: value ?? {}, source: key in config ? 'file' : 'default' };
  }

  const layered = <S extends SectionName>(name: S): Layered<SectionOptions[S]> =>
    layer(name, { file: config[name], env: fromEnv[name], flag: flags[name] }, settings);
  const [relayGiven, workerGiven, resurrectorGiven] = [
    layered('relay'),
    layered('worker'),
    layered('resurrector'),
  ];
  const relay = resolveRelayOptions(relayGiven.given, relayGiven.nameOf);
  const worker = resolveWorkerOptions(workerGiven.given, workerGiven.nameOf);
  const resurrector = resolveResurrectorOptions(resurrectorGiven.given, resurrectorGiven.nameOf);
  checkRelations(relay.options, worker.options);
  return Object.freeze({
    ...top,
    database: database.target,
    broker: messaging.broker,
    ledger: messaging.ledger,
    outboxes,
    keyring: signing.keyring,
    relay: relay.options,
    worker: worker.options,
    resurrector: resurrector.options,
    retention,
    admission,
    settings: Object.freeze(settings),
    warnings: [
      ...relay.warnings,
      ...worker.warnings,
      ...resurrector.warnings,
      ...signing.warnings,
      ...fleetWarnings(worker.options, messaging),
    ],
  });
}

const DEFAULTS: Readonly<Record<SectionName, Readonly<Record<string, unknown>>>> = {
  relay: { ...RELAY_DEFAULTS },
  worker: { ...WORKER_DEFAULTS },
  resurrector: { ...RESURRECTOR_DEFAULTS },
};

interface Layers {
  readonly file: unknown;
  readonly env: object;
  readonly flag: object | undefined;
}

interface Layered<O> {
  readonly given: O;
  readonly nameOf: NameOf;
}

/** Lays one stage's sources over each other, key by key, and notes where each value came from. */
function layer<S extends SectionName>(
  name: S,
  layers: Layers,
  settings: Record<string, Setting>,
): Layered<SectionOptions[S]> {
  const given: Record<string, unknown> = {};
  const sources = new Map<string, Source>();
  for (const source of ['file', 'env', 'flag'] as const) {
    const values = layers[source] === undefined ? {} : asRecord(layers[source], name);
    for (const [key, value] of Object.entries(dropUndefined(values))) {
      given[key] = value;
      sources.set(key, source);
    }
  }
  for (const row of OPTION_TABLE[name]) {
    settings[`${name}.${row.key}`] = {
      value: row.key in given ? given[row.key] : DEFAULTS[name][row.key],
      source: sources.get(row.key) ?? 'default',
    };
  }
  const nameOf: NameOf = key => {
    if (sources.get(key) === 'flag') return flagOf(key);
    return sources.get(key) === 'env' ? envOf(name, key) : `${name}.${key}`;
  };
  return { given, nameOf };
}

interface SourcedTarget {
  readonly target: OutboxTarget;
  readonly source: Source;
}

function readDatabase(
  config: Readonly<Record<string, unknown>>,
  fromEnv: string | undefined,
  folder: string,
): SourcedTarget {
  if (fromEnv !== undefined) {
    // A path in a variable is meant from where the command is typed, not from where the file lies.
    const origin = { option: DATABASE_ENV, folder: process.cwd() };
    return { target: parseDatabaseUrl(fromEnv, origin), source: 'env' };
  }
  const isGiven = 'database' in config;
  const url = isGiven ? config['database'] : CONFIG_DEFAULTS.database;
  const target = parseDatabaseUrl(url, { option: 'database', folder });
  return { target, source: isGiven ? 'file' : 'default' };
}

/** As `config show` prints them: without secrets, and by name where nothing was given. */
function messagingSettings(given: Messaging): Readonly<Record<string, Setting>> {
  const { broker, ledger } = given;
  const isUrl = ledger.kind === 'redis';
  return {
    broker: {
      value: broker === null ? 'database' : maskUrl(broker.url),
      source: given.brokerSource,
    },
    ledger: { value: isUrl ? maskUrl(ledger.url) : 'database', source: given.ledgerSource },
  };
}

/** Results are kept where the ledger is; a store that is configured and not used would stay empty. */
function refuseResultStore(config: Readonly<Record<string, unknown>>, env: Env): void {
  const isInEnv = (env['OUTLAST_RESULT_URL'] ?? '') !== '';
  if (!isInEnv && !('result' in config)) return;
  const option = isInEnv ? 'OUTLAST_RESULT_URL' : 'result';
  throw outlastError('ERR_CONFIG_TIER', {
    message: `\`${option}\` is set, but this version keeps results where the ledger is`,
    hint: `Remove \`${option}\`.`,
    fields: { option },
  });
}
