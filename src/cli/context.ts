import { loadEnvFile } from 'node:process';
import type { Command } from 'commander';
import { adminOn, adminSettings, operatorStores, type Admin } from '../admin/create-admin.ts';
import { outlastError } from '../errors/error.ts';
import type { ConfigFlags } from '../config/config.ts';
import { loadConfig, type LoadedConfig, type LoaderKind } from '../config/load-config.ts';
import { optionsFromText } from '../config/from-env.ts';
import { OPTION_TABLE } from '../config/option-table.ts';
import type { SectionName } from '../config/options.ts';
import { openContext, type Context, type ContextOptions } from '../context/context.ts';
import type { Stores } from '../context/stores.ts';
import type { ChildLog } from '../process/worker-spec.ts';
import { stderrLogger, type Logger, type LogLevel } from '../telemetry/logger.ts';

/** Options every command has. */
export interface CommonOptions {
  readonly config?: string;
  readonly loader?: LoaderKind;
  readonly envFile?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
  readonly quiet?: boolean;
  readonly outbox?: string;
}

/** What a command works with, read from its flags, the environment and the config file. */
export interface CommandContext {
  readonly loaded: LoadedConfig;
  /** Closed by `withContext`, or by the command itself. */
  readonly context: Context;
}

export interface CommandNeeds extends Pick<ContextOptions, 'embedded' | 'migrates'> {
  /** The options whose flags the command has. */
  readonly section?: SectionName;
}

/** Commands inspect an existing database: unless they ask for it, they create none. */
export async function readContext(
  options: CommonOptions,
  { section, embedded = 'existing', migrates = false }: CommandNeeds = {},
): Promise<CommandContext> {
  if (options.envFile !== undefined) readEnvFile(options.envFile);
  const loaded = await loadConfig({ file: options.config, loader: options.loader });
  const flags: ConfigFlags = {
    folder: loaded.folder,
    ...(section ? { [section]: readFlags(section, options) } : {}),
  };
  const { level: asked, json } = logOptions(options);
  const makeLog = (level: LogLevel | null): Logger =>
    stderrLogger({ level: asked ?? level ?? 'info', json });
  const { outbox } = options;
  return {
    loaded,
    context: openContext(loaded.config, { flags, makeLog, outbox, embedded, migrates }),
  };
}

/** The log options of this command, and of the processes it starts: flags win over what the configuration says. */
export function logOptions({
  verbose = false,
  quiet = false,
  json = false,
}: CommonOptions): ChildLog {
  return { level: verbose ? 'debug' : quiet ? 'warn' : null, json };
}

/** Variables that are already set keep their values. */
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

/** Picks the options of one section out of all options of a command. */
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

/** Adds a flag for every option of a section, with its default in the help. Defaults are not defined here. */
export function addSectionFlags(command: Command, section: SectionName): Command {
  for (const row of OPTION_TABLE[section]) {
    command.option(
      `${row.flag} <value>`,
      `${row.sentence} (default: ${row.default}; env: ${row.env})`,
    );
  }
  return command;
}

/** Adds the flag of commands that can inspect another outbox than the default one. */
export function addOutboxFlag(command: Command): Command {
  return command.option('--outbox <name>', 'a named outbox of the configuration');
}

/** Runs a command and closes what it opened, whatever happens. */
export async function withContext<T>(context: Context, fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } finally {
    await context.close();
  }
}

/** What operator commands use: the ledger of the configuration, with the outbox that was asked for. */
export async function withAdmin<T>(
  { context }: CommandContext,
  fn: (admin: Admin, stores: Stores) => Promise<T>,
): Promise<T> {
  return await withContext(context, async () => {
    const stores = await context.adminStores();
    return await fn(
      adminOn(() => operatorStores(context), adminSettings(context)),
      stores,
    );
  });
}
