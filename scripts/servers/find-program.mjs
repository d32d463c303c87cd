// @ts-check
import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * The path of an executable file, looked for in the search path and in folders Debian keeps off it.
 * @param {string} name
 * @param {readonly string[]} folders may contain one `*`, for a version: the highest is tried first
 * @param {{ isPathLast?: boolean }} [order]
 */
export function findProgram(name, folders, { isPathLast = false } = {}) {
  const path = (process.env.PATH ?? '').split(delimiter).filter(folder => folder !== '');
  const special = folders.flatMap(expand);
  const places = isPathLast ? [...special, ...path] : [...path, ...special];
  return places.map(folder => join(folder, name)).find(isExecutable) ?? null;
}

/** @param {string} pattern */
function expand(pattern) {
  const [before, after] = pattern.split('*');
  if (before === undefined || after === undefined) return [pattern];
  try {
    const versions = readdirSync(before).sort((a, b) => Number(b) - Number(a));
    return versions.map(version => before + version + after);
  } catch {
    // The folder appears when the package is installed.
    return [];
  }
}

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
