import { loadEnvFile } from 'node:process';
import type { Command } from 'commander';
import { adminOn, type Admin } from '../admin/create-admin.ts';
import { outlastError } from '../errors/error.ts';
import type { OutboxTarget } from '../config/database-url.ts';
import { findOutbox } from '../config/outboxes.ts';
import { resolveConfig, type ConfigFlags, type ResolvedConfig } from '../config/config.ts';
import { loadConfig, type LoadedConfig, type LoaderKind } from '../config/load-config.ts';
import { optionsFromText } from '../config/from-env.ts';
import { OPTION_TABLE } from '../config/option-table.ts';
import type { SectionName } from '../config/options.ts';
import { embeddedDefaults } from '../wiring/embedded-defaults.ts';
import { messagingOf } from '../wiring/messaging.ts';
import { createRuntime } from '../wiring/runtime.ts';
import { dialectOf } from '../wiring/writer-of.ts';
import {
  openOutboxApart,
  openStores,
  withOutbox,
  type OpenOptions,
  type OutboxApart,
  type Stores,
} from '../wiring/stores.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { Events } from '../telemetry/events.ts';
import { createLogger, type Logger } from '../telemetry/logger.ts';
import type { Output } from './output.ts';

/** Options every command has. */
export interface CommonOptions {
  readonly config?: string;
  readonly loader?: LoaderKind;
  readonly envFile?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
  readonly outbox?: string;
}

/** What a command works with, read from its flags, the environment and the config file. */
export interface CommandContext {
  readonly loaded: LoadedConfig;
  readonly config: ResolvedConfig;
  readonly log: Logger;
  readonly runtime: Runtime;
  readonly output: Output;
  /** A named outbox in another database, where one was asked for. */
  readonly outboxTarget: OutboxTarget | null;
}

export async function readContext(
  options: CommonOptions,
  output: Output,
  section?: SectionName,
): Promise<CommandContext> {
  if (options.envFile !== undefined) readEnvFile(options.envFile);
  const loaded = await loadConfig({ file: options.config, loader: options.loader });
  const flags: ConfigFlags = {
    folder: loaded.folder,
    ...(section ? { [section]: readFlags(section, options) } : {}),
  };
  const config = embeddedDefaults(resolveConfig(loaded.config, process.env, flags));
  const level = options.verbose ? 'debug' : 'info';
  const log =
    config.log ??
    createLogger({
      level,
      json: options.json ?? false,
      write: line => void process.stderr.write(line),
      now: Date.now,
    });
  const events = new Events((error, event) => log.error({ error, event }, 'a listener failed'));
  events.addAll(config.on);
  for (const warning of config.warnings) log.warn({}, warning);
  const outboxTarget =
    options.outbox === undefined ? null : findOutbox(config.outboxes, options.outbox);
  return { loaded, config, log, runtime: createRuntime(log, events.emit), output, outboxTarget };
}

/** Variables that are set already stay as they are. */
function readEnvFile(file: string): void {
  try {
    loadEnvFile(file);
  } catch (cause) {
    throw outlastError('ERR_CONFIG_LOAD', {
      message: `${file} cannot be read: ${(cause as Error).message}`,
      hint: 'Give the path of an existing file with lines NAME=value.',
      fields: { file },
      cause,
    });
  }
}

/** The options of one section among all a command was given. */
export function readFlags<S extends SectionName>(
  section: S,
  options: object,
): ReturnType<typeof optionsFromText<S>> {
  const keys = OPTION_TABLE[section].map(row => row.key);
  const given = Object.entries(options).filter(
    ([key, value]) => keys.includes(key) && typeof value === 'string',
  );
  return optionsFromText(section, Object.fromEntries(given) as Record<string, string>);
}

/** Adds a flag for every option of a section, with its default in the help. No default lives here. */
export function addSectionFlags(command: Command, section: SectionName): Command {
  for (const row of OPTION_TABLE[section]) {
    command.option(
      `${row.flag} <value>`,
      `${row.sentence} (default: ${row.default}; env: ${row.env})`,
    );
  }
  return command;
}

/** Adds the flag of verbs that can look at another outbox than the default one. */
export function addOutboxFlag(command: Command): Command {
  return command.option('--outbox <name>', 'a named outbox of the configuration');
}

/** Opens the stores of the configuration for one command and closes them whatever happens. */
export async function withStores<T>(
  context: CommandContext,
  options: OpenOptions,
  fn: (stores: Stores) => Promise<T>,
): Promise<T> {
  const { config, log } = context;
  const stores = await openStores(config.database, { ...options, ...messagingOf(config, log) });
  try {
    return await fn(stores);
  } finally {
    await stores.close();
  }
}

/** The database that tasks are written to: of the outbox that was asked for, or the default one. */
export async function withOutboxDatabase<T>(
  context: CommandContext,
  fn: (outbox: Pick<OutboxApart, 'db' | 'dialect'>) => Promise<T>,
): Promise<T> {
  const { outboxTarget } = context;
  if (outboxTarget === null)
    return await withStores(context, {}, ({ db }) =>
      fn({ db, dialect: dialectOf(context.config.database) }),
    );
  const apart = await openOutboxApart(outboxTarget);
  try {
    return await fn(apart);
  } finally {
    await apart.db.close();
  }
}

/** What an operator works through: the ledger of the configuration, with the outbox that was asked for. */
export async function withAdmin<T>(
  context: CommandContext,
  fn: (admin: Admin) => Promise<T>,
): Promise<T> {
  const { config, log, outboxTarget } = context;
  const stores = await openStores(config.database, {
    createIfMissing: false,
    ...messagingOf(config, log),
  });
  try {
    if (outboxTarget === null) return await fn(adminOn(() => Promise.resolve(stores)));
    const apart = await openOutboxApart(outboxTarget);
    try {
      return await fn(adminOn(() => Promise.resolve(withOutbox(stores, apart))));
    } finally {
      await apart.db.close();
    }
  } finally {
    await stores.close();
  }
}
