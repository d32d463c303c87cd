import { dirname, join, resolve } from 'node:path';
import { outlastError } from '../errors/error.ts';
import type { OutlastConfig } from './config.ts';
import { configLoadError, findConfig, readJsonConfig } from './find-config.ts';
import {
  type Exports,
  type LoaderChoice,
  type LoaderKind,
  type ModuleLoader,
  loadFailure,
  loadFirst,
  loadHint,
  messageOf,
} from './module-loader.ts';
import { chooseLoader, chooseLoaderFor } from './choose-loader.ts';
import { matchModules } from './match-modules.ts';

export { createLoader } from './module-loader.ts';
export type { LoaderChoice, LoaderKind, ModuleLoader } from './module-loader.ts';

const HANDLER: unique symbol = Symbol.for('outlast.handler') as never;

/** A config file as it was found. `resolveConfig` checks its values later. */
export interface LoadedConfig {
  readonly config: OutlastConfig;
  /** Null: there is none, and the defaults apply. */
  readonly file: string | null;
  /** The base of relative paths in the config: the file's folder, else the working directory. */
  readonly folder: string;
  readonly loader: LoaderChoice;
}

export interface LoadConfigOptions {
  /** Where the search starts. @default the working directory */
  readonly cwd?: string;
  /** The config file, when it is named. */
  readonly file?: string | undefined;
  /** Overrides the choice of the loader. */
  readonly loader?: LoaderKind | undefined;
}

/** Finds and loads the config file, which also chooses the loader of this process. */
export async function loadConfig(options: LoadConfigOptions = {}): Promise<LoadedConfig> {
  const cwd = resolve(options.cwd ?? process.cwd());
  const file = findConfig(cwd, options.file);
  if (file === null) {
    const loader = { kind: options.loader ?? 'native', base: join(cwd, 'package.json') };
    return { config: {}, file, folder: cwd, loader };
  }
  const folder = dirname(file);
  if (file.endsWith('.json')) {
    const config = asConfig(readJsonConfig(file), file);
    const kind = options.loader ?? (await chooseLoaderFor(patternsOf(config), file));
    return { config, file, folder, loader: { kind, base: file } };
  }
  const kind = options.loader ?? (await chooseLoader(file));
  const { exports, loader } = await loadFirst(file, kind);
  const config = asConfig(defaultOf(exports, file), file);
  return { config, file, folder, loader: { kind: loader.kind, base: loader.base } };
}

/** What is wrong with them is said when the configuration is checked. */
function patternsOf({ tasks }: OutlastConfig): readonly string[] {
  return Array.isArray(tasks) ? tasks.filter(one => typeof one === 'string') : [];
}

function defaultOf(exports: Exports, file: string): unknown {
  const found = unwrapCommonJs(exports);
  if ('default' in found) return found['default'];
  throw configLoadError(
    file,
    'has no default export',
    'Write `export default defineConfig({ … })`.',
  );
}

function asConfig(value: unknown, file: string): OutlastConfig {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw configLoadError(
    file,
    'does not hold a config object',
    file.endsWith('.json') ? 'Write an object.' : 'Write `export default defineConfig({ … })`.',
  );
}

/**
 * ES modules that were compiled to CommonJS arrive as the default export of the module that Node
 * creates for them.
 */
function unwrapCommonJs(exports: Exports): Exports {
  const inner = exports['default'];
  const isCompiled = typeof inner === 'object' && inner !== null && '__esModule' in inner;
  return isCompiled ? { ...inner } : exports;
}

/** `module.exports = { a: … }`: Node sees the names of an assignment only if it is written in certain ways. */
function withMembers(exports: Exports): Exports {
  const inner = exports['default'];
  return !isHandler(inner) && isPlain(inner) ? { ...inner, ...exports } : exports;
}

const isPlain = (value: unknown): value is Exports =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/** A handler with the module it came from: other processes and threads load it from there. */
export interface LoadedHandler {
  readonly handler: object;
  readonly file: string;
  readonly exportName: string;
}

/**
 * Loads the modules that `patterns` name, relative to the config file `base`, and returns every
 * handler they export, alone or in a list, ordered by file and by name. A handler exported under two names or by
 * two modules counts once.
 */
export async function loadTaskModules(
  patterns: readonly string[],
  base: string,
  loader: ModuleLoader,
): Promise<readonly LoadedHandler[]> {
  const found = new Map<object, LoadedHandler>();
  // One after the other: jiti returns a half-loaded module to a concurrent import.
  for (const file of matchModules(patterns, base)) {
    const exports = withMembers(unwrapCommonJs(await loadModule(file, loader)));
    // By name: native modules list their exports that way, jiti's in source order.
    for (const exportName of Object.keys(exports).toSorted()) {
      const value = exports[exportName];
      for (const handler of Array.isArray(value) ? (value as readonly unknown[]) : [value])
        if (isHandler(handler) && !found.has(handler))
          found.set(handler, { handler, file, exportName });
    }
  }
  return [...found.values()];
}

async function loadModule(file: string, loader: ModuleLoader): Promise<Exports> {
  try {
    return await loader.load(file);
  } catch (error) {
    const { at, ...where } = loadFailure(file, error);
    throw outlastError('ERR_HANDLER_NOT_LOADABLE', {
      message: `${file} cannot be loaded: ${messageOf(error)}${at === '' ? '' : `, at ${at}`}`,
      hint: loadHint(loader, file, error),
      fields: { file, ...where },
      cause: error,
    });
  }
}

function isHandler(value: unknown): value is object {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    HANDLER in value
  );
}
