import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { outlastError, type OutlastError } from '../errors/error.ts';

/** In the order they are looked for; the first in the nearest folder counts. */
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
 * The config file: the one named, else the first from `cwd` upward. Null when there is none.
 * Links are followed, so that one file has one path and is loaded once.
 */
export function findConfig(cwd: string, named?: string): string | null {
  if (named !== undefined) {
    const file = resolve(cwd, named);
    if (isFile(file)) return realpathSync(file);
    throw configLoadError(file, 'does not exist', 'Give the path of an existing config file.');
  }
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const found = findIn(folder);
    if (found !== null) return realpathSync(found);
    if (folder === dirname(folder)) return null;
  }
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
  // A broken manifest above us that never mentions Outlast is somebody else's trouble.
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
