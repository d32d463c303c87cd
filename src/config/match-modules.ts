import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, extname, join, resolve } from 'node:path';
import { type Wildcard, starPattern } from '../task/glob.ts';
import { configLoadError } from './find-config.ts';

const MODULE = /\.[mc]?[jt]sx?$/;
const NEVER = /\.(test|spec)\.[^.]+$|\.d\.[mc]?ts$/;

const TS = ['.ts', '.mts'];
const JS = ['.js', '.mjs'];

/**
 * The extensions of a pattern without one: those of the config's own kind. JSON has none, so all
 * count.
 */
function extensionsOf(base: string): readonly string[] {
  switch (extname(base)) {
    case '.ts':
    case '.mts':
      return TS;
    case '.js':
    case '.mjs':
      return JS;
    case '.cjs':
      return [...JS, '.cjs'];
    default:
      return [...TS, ...JS];
  }
}

/**
 * The module files the patterns name, in the order of the patterns and sorted by path within one.
 * `*` stands for any text within a path segment, `**` for any number of folders. Paths are relative
 * to the folder of `base`.
 */
export function matchModules(patterns: readonly string[], base: string): readonly string[] {
  const files = patterns.flatMap(pattern => {
    const found = matchPattern(pattern, base);
    if (found.length === 0) throw nothingFound(pattern, base);
    return found;
  });
  return [...new Set(files)];
}

/** The same without complaint about those that name nothing. */
export function findModules(patterns: readonly string[], base: string): readonly string[] {
  return [...new Set(patterns.flatMap(pattern => matchPattern(pattern, base)))];
}

function matchPattern(pattern: string, base: string): string[] {
  const segments = pattern.split('/');
  const wild = segments.findIndex(segment => segment.includes('*'));
  const extensions = MODULE.test(pattern) ? [''] : extensionsOf(base);
  if (wild === -1) {
    // A file named in full is always included, even if it looks like a test.
    const path = resolve(dirname(base), pattern);
    return extensions.map(extension => `${path}${extension}`).filter(isFile);
  }
  // An absolute pattern begins with an empty segment, which `join('/')` turns back into its root.
  const root = resolve(dirname(base), segments.slice(0, wild).join('/') || (wild > 0 ? '/' : '.'));
  const rest = segments.slice(wild);
  if (rest.at(-1) === '**') rest.push('*');
  const match = { extensions, found: new Set<string>() };
  walk(root, rest, match);
  return [...match.found].toSorted(byPath);
}

/** By code units, so that every machine loads in the same order. */
const byPath = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface Match {
  readonly extensions: readonly string[];
  readonly found: Set<string>;
}

function walk(folder: string, segments: readonly string[], match: Match): void {
  const [segment = '', ...rest] = segments;
  if (segment === '**') {
    walk(folder, rest, match);
    for (const entry of foldersIn(folder)) walk(join(folder, entry.name), segments, match);
    return;
  }
  if (segment === '..' || segment === '.') return walk(join(folder, segment), rest, match);
  if (rest.length > 0) {
    const names = toPattern(segment, ['']);
    for (const entry of entriesIn(folder).filter(found => names.test(found.name))) {
      const path = join(folder, entry.name);
      if (isVisible(entry, segment) && isFolder(path)) walk(path, rest, match);
    }
    return;
  }
  const names = toPattern(segment, match.extensions);
  for (const entry of entriesIn(folder)) {
    const path = join(folder, entry.name);
    if (!isVisible(entry, segment) || NEVER.test(entry.name)) continue;
    if (names.test(entry.name) && isFile(path)) match.found.add(path);
  }
}

/** Links to folders are not followed by `**`: one that points upward would never end. */
function foldersIn(folder: string): Dirent[] {
  return entriesIn(folder).filter(
    entry => entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules',
  );
}

/** A star does not match hidden entries or installed packages; a name does. */
function isVisible(entry: Dirent, segment: string): boolean {
  if (!segment.startsWith('*')) return true;
  return !entry.name.startsWith('.') && entry.name !== 'node_modules';
}

function entriesIn(folder: string): Dirent[] {
  return isFolder(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile();
const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory();

/** The name of a segment, followed by one of the extensions. */
function toPattern(segment: string, extensions: readonly string[]): Pick<Wildcard, 'test'> {
  const patterns = extensions.map(extension => starPattern(segment + extension));
  return { test: name => patterns.some(pattern => pattern.test(name)) };
}

function nothingFound(pattern: string, base: string): Error {
  const path = resolve(dirname(base), pattern);
  const kinds = MODULE.test(pattern) ? 'that name' : extensionsOf(base).join(', ');
  const hint = isFolder(path)
    ? `It is a folder: write \`${pattern.replace(/\/$/, '')}/*\`.`
    : `Looked in ${dirname(base)} for ${kinds}; tests and .d.ts files do not count.`;
  return configLoadError(base, `names \`${pattern}\` in \`tasks\`, which matches no module`, hint);
}
