import { existsSync, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type OutlastError, outlastError } from '../errors/error.ts';

/** In search order; the first in the nearest folder counts. */
export const CONFIG_FILES = [
  'outlast.config.ts',
  'outlast.config.mts',
  'outlast.config.js',
  'outlast.config.mjs',
  'outlast.config.cjs',
  'outlast.config.json',
] as const;

export function configLoadError(
  file: string,
  problem: string,
  hint: string,
  cause?: unknown,
): OutlastError {
  return outlastError('ERR_CONFIG_LOAD', {
    message: `${file} ${problem}`,
    hint,
    fields: { file },
    ...(cause === undefined ? {} : { cause }),
  });
}

/**
 * The config file: the one named, else the first from `cwd` upward to the root of the project. Null when there is none.
 * Links are followed, so that one file has one path and is loaded once.
 *
 * A config file is code. One that was found, and not named, is refused if another user may have written it.
 */
export function findConfig(cwd: string, named?: string): string | null {
  if (named !== undefined) {
    const file = resolve(cwd, named);
    if (isFile(file)) return realpathSync(file);
    throw configLoadError(file, 'does not exist', 'Give the path of an existing config file.');
  }
  const owners = trustedOwners(cwd);
  for (const folder of foldersOf(resolve(cwd), owners)) {
    const found = findIn(folder);
    if (found === null) continue;
    const file = realpathSync(found);
    const distrust = distrustOf(file, found, owners);
    if (distrust === null) return file;
    throw configLoadError(
      found,
      `is not loaded: it ${distrust}`,
      `If it is yours, correct its owner and mode (chown, chmod o-w); if you trust it as it is, name it: --config ${found}`,
    );
  }
  return null;
}

/**
 * The folders that may hold the config, nearest first: up to the repository or workspace, else up to the nearest package, else
 * the working directory alone. Folders above that belong to other projects.
 */
function foldersOf(cwd: string, owners: Owners): readonly string[] {
  const folders = [cwd];
  let ofPackage = isFile(join(cwd, 'package.json')) ? 1 : 0;
  for (let folder = cwd; !isProjectRoot(folder);) {
    const above = dirname(folder);
    if (above === folder || !isClosedFolder(above, owners)) return folders.slice(0, ofPackage || 1);
    folder = above;
    folders.push(folder);
    if (ofPackage === 0 && isFile(join(folder, 'package.json'))) ofPackage = folders.length;
  }
  return folders;
}

const WORKSPACE_FILES = ['.git', 'pnpm-workspace.yaml'] as const;

function isProjectRoot(folder: string): boolean {
  if (WORKSPACE_FILES.some(name => existsSync(join(folder, name)))) return true;
  const manifest = join(folder, 'package.json');
  return isFile(manifest) && readFileSync(manifest, 'utf8').includes('"workspaces"');
}

function findIn(folder: string): string | null {
  const own = CONFIG_FILES.map(name => join(folder, name)).find(isFile);
  if (own !== undefined) return own;
  const manifest = join(folder, 'package.json');
  return isFile(manifest) && hasOutlastKey(manifest) ? manifest : null;
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile();

export function hasOutlastKey(manifest: string): boolean {
  const text = readFileSync(manifest, 'utf8');
  // A broken manifest above us that never mentions Outlast is not our problem.
  if (!text.includes('"outlast"')) return false;
  const parsed = parseJson(manifest, text);
  return typeof parsed === 'object' && parsed !== null && Object.hasOwn(parsed, 'outlast');
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw configLoadError(
      file,
      'is not JSON',
      'Correct the file; comments are not allowed in it.',
      error,
    );
  }
}

/** The config of a JSON file, or of the `outlast` key of a package.json. */
export function readJsonConfig(file: string): unknown {
  const parsed = parseJson(file, readFileSync(file, 'utf8'));
  if (!file.endsWith('package.json')) return parsed;
  return (parsed as Readonly<Record<string, unknown>> | null)?.['outlast'];
}

/** The owners whose files this process may load without being asked to: itself, root, and the owner of `cwd`. */
export type Owners = ReadonlySet<number> | null;

const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

/**
 * Null if files have no owners (Windows). A user who starts a command in a folder runs the programs of its `node_modules`, so
 * its owner is trusted already; that also lets root, or the random user of a container platform, run an image whose
 * files belong to `node`.
 */
function trustedOwners(cwd: string): Owners {
  const own = process.geteuid?.();
  return own === undefined ? null : new Set([own, 0, statSync(cwd).uid]);
}

/** Why a file that was found, and not named, is not loaded; null: it may be. `link` is the path it was found under. */
function distrustOf(file: string, link: string, owners: Owners): string | null {
  if (owners === null) return null;
  const { mode, uid } = statSync(file);
  const foreignOwner = [uid, lstatSync(link).uid].find(owner => !owners.has(owner));
  if (foreignOwner !== undefined) return `belongs to another user (uid ${foreignOwner})`;
  if (mode & WRITABLE_BY_ALL) return 'may be written by every user';
  const folders = [dirname(file), dirname(link)].map(folder => statSync(folder).mode);
  const isReplaceable = folders.some(folder => folder & WRITABLE_BY_ALL && !(folder & STICKY));
  return isReplaceable ? 'is in a folder that every user may write to' : null;
}

/** Whether a folder above may be searched: not one in which every user may create files, such as /tmp. */
function isClosedFolder(folder: string, owners: Owners): boolean {
  if (owners === null) return true;
  const { mode, uid } = statSync(folder);
  return !(mode & WRITABLE_BY_ALL) && owners.has(uid);
}
