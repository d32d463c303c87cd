import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { outlastError, type OutlastError } from '../errors/error.ts';
import { distrustOf, isClosedFolder, trustedOwners, type Owners } from './trusted-files.ts';

/** In search order; the first in the nearest folder counts. */
const CONFIG_FILES = [
  'outlast.config.ts',
  'outlast.config.mts',
  'outlast.config.js',
  'outlast.config.mjs',
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

function hasOutlastKey(manifest: string): boolean {
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
