import { outlastError } from '../errors/error.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import type { Keyring } from '../task/keyring.ts';
import { readMetrics, type ResolvedMetrics } from './metrics.ts';
import { readTraces, shownTraces, type ResolvedTraces } from './traces.ts';
import type { ContextOption } from '../task/context-headers.ts';
import type { Redactor } from '../task/redact.ts';
import type { EventListeners } from '../telemetry/events.ts';
import type { Logger, LogLevel } from '../telemetry/logger.ts';
import { readAdmission, type AdmissionPattern } from './admission.ts';
import type { BrokerTarget } from './broker-target.ts';
import { checkRelations, fleetWarnings } from './check-relations.ts';
import { readCelery, type CeleryRules } from './celery.ts';
import type { OutboxTarget } from './database-target.ts';
import { inSchema, parseDatabaseUrl } from './database-url.ts';
import { embeddedDefaults } from './embedded-defaults.ts';
import {
  DATABASE_ENV,
  optionsFromEnv,
  SCHEMA_ENV,
  type Env,
  type EnvOptions,
  type SectionOptions,
} from './from-env.ts';
import { readMessaging, type LedgerTarget, type Messaging } from './messaging.ts';
import { envOf, flagOf, OPTION_TABLE, STAGE_TABLES } from './option-table.ts';
import type { OutlastConfig, WorkerOptions } from './options.generated.ts';
import {
  asRecord,
  dropUndefined,
  refuseUnknown,
  type NameOf,
  type SectionName,
} from './options.ts';
import { readOutboxes } from './outboxes.ts';
import { resolveRelayOptions, type ResolvedRelayOptions } from './relay-options.ts';
import {
  resolveResurrectorOptions,
  type ResolvedResurrectorOptions,
} from './resurrector-options.ts';
import { readSchedules, type ScheduleSpec } from './schedule.ts';
import { readRetention, type ResolvedRetention } from './retention.ts';
import { readSigning, type Signing } from './signing.ts';
import { readTopLevel, TOP_LEVEL_OPTIONS } from './top-level.ts';
import { resolveWorkerOptions, type ResolvedWorkerOptions } from './worker-options.ts';

export type { OutlastConfig };

/**
 * Gives a config file its types; returns the object unchanged.
 *
 * @throws ERR_UNKNOWN_OPTION
 *
 * @example
 * export default defineConfig({ tasks: ['./src/handlers/*'], worker: { concurrency: 20 } });
 */
export function defineConfig(config: OutlastConfig): OutlastConfig {
  return config;
}

/** Where a value came from, strongest first. */
export type Source = 'flag' | 'env' | 'file' | 'default';

/** One value as it was given, for `config show`. Secrets in it are masked. */
export interface Setting {
  readonly value: unknown;
  readonly source: Source;
}

/** Values from the command line, or from an option of `start…()`. URLs are never flags. */
export interface ConfigFlags extends Partial<SectionOptions> {
  /**
   * The folder of the config file; a relative database folder is resolved from there.
   * @default the working directory
   */
  readonly folder?: string;
}

/** The resolved configuration of a process. */
export interface ResolvedConfig {
  readonly database: OutboxTarget;
  /** Null: the database. */
  readonly broker: BrokerTarget | null;
  readonly ledger: LedgerTarget;
  readonly celery: CeleryRules;
  /** Outboxes in other databases, by name. */
  readonly outboxes: Readonly<Record<string, OutboxTarget>>;
  readonly tasks: readonly string[];
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
  readonly maxMessageBytes: number;
  readonly redact: Redactor | null;
  readonly context: ContextOption | null;
  readonly keyring: Keyring;
  readonly relay: ResolvedRelayOptions;
  readonly worker: ResolvedWorkerOptions;
  readonly resurrector: ResolvedResurrectorOptions;
  readonly retention: ResolvedRetention;
  readonly admission: readonly AdmissionPattern[];
  readonly metrics: ResolvedMetrics;
  readonly traces: ResolvedTraces;
  readonly schedule: readonly ScheduleSpec[];
  readonly on: EventListeners;
  readonly log: Logger | null;
  /** What our own log writes at least; null: nothing was said. */
  readonly logLevel: LogLevel | null;
  /** By dotted key: `relay.batchSize`. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** Legal, but seldom meant. */
  readonly warnings: readonly string[];
}

/** Options of no stage that `config show` shows unchanged. */
const SHOWN_AS_GIVEN = [
  'tasks',
  'strict',
  'excludeTasks',
  'maxPayloadBytes',
  'maxMessageBytes',
] as const;

/** As they were given, without a password. */
function shownRules(given: unknown, { chordBackend }: CeleryRules): unknown {
  return chordBackend === null
    ? given
    : { ...(given as object), chordBackend: maskUrl(chordBackend) };
}

/** Sections that are shown as they were given. */
function sectionSettings(
  config: Readonly<Record<string, unknown>>,
  resolved: Pick<ResolvedConfig, 'celery' | 'schedule'>,
): Readonly<Record<string, Setting>> {
  const { retention, admission, metrics } = config;
  const traces = shownTraces(config['traces']);
  const celery = shownRules(config['celery'], resolved.celery);
  const schedule = resolved.schedule.map(({ name }) => name);
  const given = { retention, admission, celery, metrics, traces, schedule };
  const sourceOf = (key: string): Source => (key in config ? 'file' : 'default');
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      { value: value ?? {}, source: sourceOf(key) },
    ]),
  );
}

/** Those that neither variables nor flags can change. */
function readSections(
  config: Readonly<Record<string, unknown>>,
): Pick<ResolvedConfig, 'retention' | 'admission' | 'metrics' | 'traces'> {
  return {
    retention: readRetention(config['retention']),
    admission: readAdmission(config['admission']),
    metrics: readMetrics(config['metrics']),
    traces: readTraces(config['traces']),
  };
}

/** Merges flags over variables over the file over the defaults, and checks the result. */
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
  const database = readDatabase(config, fromEnv, flags.folder ?? process.cwd());
  Object.assign(settings, databaseSettings(database));
  const messaging = readMessaging(config, env, database.target);
  Object.assign(settings, messagingSettings(messaging));
  const top = readTopLevel(config, env);
  for (const key of SHOWN_AS_GIVEN)
    settings[key] = { value: top[key], source: key in config ? 'file' : 'default' };
  const signing = readSigning(config, env);
  Object.assign(settings, signingSettings(signing, config));
  const outboxes = readOutboxes(config['outboxes'], flags.folder ?? process.cwd());
  for (const [name, { url }] of Object.entries(outboxes)) {
    settings[`outboxes.${name}`] = { value: maskUrl(url), source: 'file' };
  }
  const sections = readSections(config);
  const celery = readCelery(config['celery']);
  const schedule = readSchedules(config['schedule']);
  Object.assign(settings, sectionSettings(config, { celery, schedule }));

  const layered = <S extends SectionName>(name: S): Layered<SectionOptions[S]> =>
    layer(name, { file: config[name], env: fromEnv[name], flag: flags[name] }, settings);
  const [relayGiven, workerGiven, resurrectorGiven] = [
    layered('relay'),
    layered('worker'),
    layered('resurrector'),
  ];
  const relay = resolveRelayOptions(relayGiven.given, relayGiven.nameOf);
  const worker = resolveWorkerOptions(
    withSigning(workerGiven.given, signing.keyring, settings),
    workerGiven.nameOf,
  );
  const resurrector = resolveResurrectorOptions(resurrectorGiven.given, resurrectorGiven.nameOf);
  checkRelations(relay.options, worker.options);
  const resolved = embeddedDefaults<ResolvedConfig>({
    ...top,
    database: database.target,
    broker: messaging.broker,
    ledger: messaging.ledger,
    celery,
    outboxes,
    keyring: signing.keyring,
    relay: relay.options,
    worker: worker.options,
    resurrector: resurrector.options,
    ...sections,
    schedule,
    settings,
    warnings: [
      ...unnamedWarnings(database, env),
      ...relay.warnings,
      ...worker.warnings,
      ...resurrector.warnings,
      ...signing.warnings,
      ...fleetWarnings(worker.options, messaging),
    ],
  });
  return Object.freeze({ ...resolved, settings: Object.freeze(resolved.settings) });
}

interface Layers {
  readonly file: unknown;
  readonly env: object;
  readonly flag: object | undefined;
}

interface Layered<O> {
  readonly given: O;
  readonly nameOf: NameOf;
}

/** Merges the sources of one stage, key by key, and records where each value came from. */
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
      value: row.key in given ? given[row.key] : STAGE_TABLES[name][row.key]?.default,
      source: sources.get(row.key) ?? 'default',
    };
  }
  const nameOf: NameOf = key => {
    if (sources.get(key) === 'flag') return flagOf(key);
    return sources.get(key) === 'env' ? envOf(name, key) : `${name}.${key}`;
  };
  return { given, nameOf };
}

/** Of keys only their ids are shown. */
function signingSettings(
  signing: Signing,
  config: Readonly<Record<string, unknown>>,
): Readonly<Record<string, Setting>> {
  const { keyIds, keysSource, unsignedQueues, maxAge, audience } = signing;
  const sourceOf = (key: string): Source => (key in config ? 'file' : 'default');
  return {
    signingKeys: { value: keyIds.map(id => `${id}:***`), source: keysSource },
    unsignedQueues: { value: unsignedQueues, source: sourceOf('unsignedQueues') },
    signatureMaxAge: { value: maxAge, source: sourceOf('signatureMaxAge') },
    signingAudience: { value: audience, source: sourceOf('signingAudience') },
  };
}

/** A sender without a key must not control workers that require one: remote control cannot prove its sender. */
function withSigning(
  given: WorkerOptions,
  { isSigning }: Keyring,
  settings: Record<string, Setting>,
): WorkerOptions {
  if (!isSigning) return given;
  const changed: Record<string, unknown> = { ...given };
  for (const [key, row] of Object.entries(STAGE_TABLES.worker)) {
    if (row.kind !== 'choice' || row.whenSigning === undefined || key in given) continue;
    changed[key] = row.whenSigning;
    settings[`worker.${key}`] = { value: row.whenSigning, source: 'default' };
  }
  return changed;
}

interface SourcedTarget {
  readonly target: OutboxTarget;
  readonly source: Source;
  readonly schemaSource: Source;
}

function databaseSettings(found: SourcedTarget): Readonly<Record<string, Setting>> {
  const { target, source, schemaSource } = found;
  return {
    database: { value: maskUrl(target.url), source },
    schema: { value: target.schema ?? 'none', source: schemaSource },
  };
}

function readDatabase(
  config: Readonly<Record<string, unknown>>,
  fromEnv: Pick<EnvOptions, 'database' | 'schema'>,
  folder: string,
): SourcedTarget {
  const { target, source } = readUrl(config, fromEnv.database, folder);
  const isInEnv = fromEnv.schema !== undefined;
  const schema = isInEnv ? fromEnv.schema : config['schema'];
  return {
    target: inSchema(target, schema, isInEnv ? SCHEMA_ENV : 'schema'),
    source,
    schemaSource: isInEnv ? 'env' : schema === undefined ? 'default' : 'file',
  };
}

function readUrl(
  config: Readonly<Record<string, unknown>>,
  fromEnv: string | undefined,
  folder: string,
): Pick<SourcedTarget, 'target' | 'source'> {
  if (fromEnv !== undefined) {
    // A path in a variable is relative to the working directory, not to the folder of the file.
    const origin = { option: DATABASE_ENV, folder: process.cwd() };
    return { target: parseDatabaseUrl(fromEnv, origin), source: 'env' };
  }
  const isGiven = 'database' in config;
  const url = isGiven ? config['database'] : TOP_LEVEL_TABLE['database']?.default;
  const target = parseDatabaseUrl(url, { option: 'database', folder });
  return { target, source: isGiven ? 'file' : 'default' };
}

/** A production process without a configured database would wait for tasks in a local folder. */
function unnamedWarnings({ target, source }: SourcedTarget, env: Env): readonly string[] {
  if (source !== 'default' || env['NODE_ENV'] !== 'production') return [];
  return [
    `no database is named, so tasks are kept in ${maskUrl(target.url)}: set ${DATABASE_ENV}, or write that URL as \`database\``,
  ];
}

/** As `config show` prints them: without secrets, and by name if nothing was given. */
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

/** Results are stored with the ledger; a separate result store would stay empty. */
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
