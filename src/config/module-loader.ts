import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isOutlastError } from '../errors/error.ts';
import { configLoadError } from './find-config.ts';
import { spawnSync } from 'node:child_process';
import { isOwnFrame, ownFrames } from '../telemetry/logger.ts';

export type LoaderKind = 'native' | 'jiti';

/**
 * The loader of a process as plain data: children and threads receive it and use the same.
 * `base` is the config file, from whose folder jiti is resolved.
 */
export interface LoaderChoice {
  readonly kind: LoaderKind;
  readonly base: string;
}

export type Exports = Readonly<Record<string, unknown>>;

/**
 * Loads the user's modules. One per process: two loaders would each create their own copy of a
 * module.
 */
export interface ModuleLoader extends LoaderChoice {
  load(file: string): Promise<Exports>;
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code;

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** The part of jiti that is used here. */
interface JitiLike {
  createJiti(
    base: string,
    options: { readonly interopDefault: boolean },
  ): { import(file: string): Promise<Exports> };
}

/** Creates the chosen loader; `ERR_CONFIG_LOAD` when it needs jiti and there is none. */
export function createLoader(choice: LoaderChoice): ModuleLoader {
  // Frozen data only: what a child receives must not depend on what this process did since.
  const data = Object.freeze({ kind: choice.kind, base: choice.base });
  if (choice.kind === 'native') {
    return { ...data, load: file => import(pathToFileURL(realpathSync(file)).href) };
  }
  const path = findJiti(choice.base);
  const jiti = path === null ? null : (createRequire(path)(path) as Partial<JitiLike>);
  // jiti 1 has no `createJiti` and cannot load ES modules.
  if (!jiti?.createJiti) throw jitiMissing(choice.base);
  // Without this a default import of a CommonJS package means something different from native
  // `import()`.
  const instance = jiti.createJiti(choice.base, { interopDefault: false });
  return { ...data, load: file => instance.import(realpathSync(file)) };
}

/**
 * The project's own jiti, else the one next to Outlast. Its path only: most processes never need to
 * load it.
 */
export function findJiti(base: string): string | null {
  for (const from of [base, import.meta.url]) {
    try {
      return createRequire(from).resolve('jiti');
    } catch (error) {
      // Continue only if there is none: the user must see the error of a broken installation.
      if (codeOf(error) !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return null;
}

function jitiMissing(file: string, cause?: unknown): Error {
  return configLoadError(
    file,
    `needs jiti: Node ${process.versions.node} cannot load it by itself`,
    'Run `npm i -D jiti`, or use Node 22.18 or later.',
    cause,
  );
}

/** Node's error code when it meets TypeScript and does not strip types. */
const UNKNOWN_EXTENSION = 'ERR_UNKNOWN_FILE_EXTENSION';

export interface LoadedModule {
  readonly exports: Exports;
  readonly loader: ModuleLoader;
}

/** Loads the config file. */
export async function loadFirst(file: string, kind: LoaderKind): Promise<LoadedModule> {
  const loader = createLoader({ kind, base: file });
  try {
    return { exports: await loader.load(file), loader };
  } catch (error) {
    if (codeOf(error) === UNKNOWN_EXTENSION && findJiti(file) === null)
      throw jitiMissing(file, error);
    throw loadError(loader, file, error);
  }
}

function loadError(loader: ModuleLoader, file: string, error: unknown): Error {
  const { at } = loadFailure(file, error);
  return configLoadError(
    file,
    `cannot be loaded: ${messageOf(error)}${at === '' ? '' : `, at ${at}`}`,
    loadHint(loader, file, error),
    error,
  );
}

const MORE_THAN_STRIPPING =
  'Node only strips types: enum, await using, types imported as values and ./x.js for x.ts need more.';
const TYPESCRIPT = /\.[mc]?tsx?$/;

/** The hint for a module that does not load: above all, whether another loader would help. */
export function loadHint(loader: LoaderChoice, file: string, error: unknown): string {
  // A task or handler that is defined wrongly: its own error has the best hint.
  if (isOutlastError(error)) return error.hint;
  const hint = `Correct ${basename(file)}, or what it imports.`;
  if (loader.kind === 'jiti' || !isForJiti(error)) return hint;
  const isUnknown = codeOf(error) === UNKNOWN_EXTENSION;
  if (!isUnknown && !isTypeScript(file)) return hint;
  const install = findJiti(loader.base) === null ? 'Run `npm i -D jiti`' : 'Add `--loader jiti`';
  return isUnknown
    ? `${install}, or use Node 22.18 or later.`
    : `${MORE_THAN_STRIPPING} ${install}.`;
}

export const isTypeScript = (file: string): boolean => TYPESCRIPT.test(file);

/** Whether Node does not load a module that jiti might. */
export const isForJiti = (error: unknown): boolean =>
  codeOf(error) === UNKNOWN_EXTENSION || needsMoreThanStripping(error);

/**
 * `enum`, `await using`, a type imported as a value: for Node a syntax error; `./db.js` for
 * `db.ts`: no file.
 */
function needsMoreThanStripping(error: unknown): boolean {
  const code = codeOf(error);
  // Text that is not TypeScript either has a different code, and no loader helps.
  if (error instanceof SyntaxError) return code !== 'ERR_INVALID_TYPESCRIPT_SYNTAX';
  if (code === 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING') return true;
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'ERR_UNSUPPORTED_DIR_IMPORT') return false;
  const url = (error as { url?: unknown }).url;
  return (
    typeof url === 'string' && url.startsWith('file:') && hasTypeScriptTwin(fileURLToPath(url))
  );
}

function hasTypeScriptTwin(missing: string): boolean {
  const stem = /\.[mc]?js$/.test(missing) ? missing.slice(0, -extname(missing).length) : missing;
  return ['.ts', '.mts', '.cts', '.tsx', '/index.ts'].some(end => existsSync(`${stem}${end}`));
}

/** Where a module failed to load. */
export interface LoadFailure {
  /** As people write it: `/app/src/tasks.js:12:3`; empty if unknown. */
  readonly at: string;
  readonly line?: number;
  /** The user's own frames first. */
  readonly traceback: string;
}

const LOCATION = /(?:file:\/\/)?((?:\/|[a-z]:[\\/])[^()\n]*?):(\d+)(?::(\d+))?\)?$/i;
/** Above the message, for compile errors: `file:///app/tasks.js:1`. */
const HEADER = /^(\S+:\d+)\n/;
const CHECK_MS = 5_000;

export function loadFailure(file: string, error: unknown): LoadFailure {
  const stack = error instanceof Error && typeof error.stack === 'string' ? error.stack : '';
  const frames = ownFrames(stack);
  const position = HEADER.exec(stack)?.[1] ?? frames.find(isOwnFrame) ?? checked(file, error);
  const [, path = '', line = '', column] = LOCATION.exec(position) ?? [];
  const traceback = frames.join('\n');
  if (path === '') return { at: '', traceback };
  const shown = position.includes('file://') ? fileURLToPath(`file://${path}`) : path;
  const at = `${shown}:${line}${column === undefined ? '' : `:${column}`}`;
  return { at, line: Number(line), traceback };
}

/** Node does not expose the line of a syntax error in an ES module, but prints it when it checks the file. */
function checked(file: string, error: unknown): string {
  if (!(error instanceof SyntaxError)) return '';
  const { stderr } = spawnSync(process.execPath, ['--check', file], { timeout: CHECK_MS });
  return /^\S+:\d+$/m.exec(String(stderr))?.[0] ?? '';
}
