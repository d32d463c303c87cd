// @ts-check
/** Scripts for Redis: one atomic step per file, with a header that tells its keys and arguments. */
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { luaWithMarks, whyNotShared } from './shared-marks.mjs';
import { typedRecord } from './typed-record.mjs';

/** @typedef {import('./embed-assets.mjs').Refusal} Refusal */
/** @typedef {import('./shared-marks.mjs').Shared} Shared */

const FILE_NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*\.lua$/;
const HEADER =
  '// Written by scripts/embed-assets.mjs from the .lua files; edit those and run npm run build.\n';
const INCLUDE = /^-- include: ([a-z0-9-]+)$/gm;

/**
 * The module that holds the scripts of an adapter's `lua` folder.
 * @param {string} adapter
 * @param {Shared} shared
 * @param {Refusal[]} refusals
 */
export function luaModule(adapter, shared, refusals) {
  const folder = join(adapter, 'lua');
  const names = readdirSync(folder).filter(name => name.endsWith('.lua'));
  /** @type {[name: string, value: string][]} */
  const entries = names.sort().map(name => {
    const file = join(folder, name);
    const source = readFileSync(file, 'utf8');
    const whole = withIncludes(source, folder, shared);
    const reason = FILE_NAME.test(name)
      ? (whyNotScript(source) ?? whyNotShared(whole, shared))
      : 'the name is not kebab-case';
    if (reason !== null) refusals.push({ file, reason });
    const text = strip(luaWithMarks(whole, shared.constants));
    const key = name.replace(/\.lua$/, '').replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    const sha = createHash('sha1').update(text).digest('hex');
    return [key, `{\n    sha: '${sha}',\n    text: ${quote(text)},\n  }`];
  });
  const type = '{ readonly sha: string; readonly text: string }';
  return `${HEADER}${typedRecord('LUA', type, entries)}`;
}

/**
 * A file that is taken in may itself take in another, and what is made of the shared definitions.
 * @param {string} source
 * @param {string} folder
 * @param {Shared} shared
 * @returns {string}
 */
function withIncludes(source, folder, shared) {
  return source.replace(INCLUDE, (_line, name) => {
    const shown = shared.includes[name];
    if (shown !== undefined) return shown;
    return withIncludes(
      readFileSync(join(folder, 'includes', `${name}.lua`), 'utf8'),
      folder,
      shared,
    );
  });
}

/**
 * Why a file is not a script with a header that tells its keys and arguments; null when it is.
 * A name that ends in `...` stands for any number of them and is the last one.
 * @param {string} source
 */
function whyNotScript(source) {
  // Without it Redis refuses or allows commands one by one, in the middle of a script.
  if (!/^#!lua( flags=[a-z-]+(,[a-z-]+)*)?\n/.test(source)) return "the first line is not '#!lua'";
  for (const [label, table] of [
    ['keys', 'KEYS'],
    ['args', 'ARGV'],
  ]) {
    const line = source.match(new RegExp(`^-- ${label}: (.+)$`, 'm'))?.[1];
    if (line === undefined) return `the header has no line '-- ${label}: name, ...'`;
    const reason = whyNotNamed(source, line === 'none' ? [] : line.split(', '), table ?? '');
    if (reason !== null) return reason;
  }
  return null;
}

/**
 * @param {string} source
 * @param {string[]} names
 * @param {string} table
 */
function whyNotNamed(source, names, table) {
  const odd = names.find(
    (name, index) =>
      !/^[a-z][a-z0-9_]*(\.\.\.)?$/.test(name) ||
      (name.endsWith('...') && index < names.length - 1),
  );
  if (odd !== undefined) return `the header has '${odd}' where a name belongs`;
  const isOpen = names.at(-1)?.endsWith('...') ?? false;
  const used = [...source.matchAll(new RegExp(`${table}\\[(\\d+)\\]`, 'g'))].map(match =>
    Number(match[1]),
  );
  const fixed = isOpen ? names.length - 1 : names.length;
  for (let index = 1; index <= fixed; index++) {
    if (!used.includes(index)) return `${table}[${index}] (${names[index - 1]}) is never used`;
  }
  const highest = Math.max(0, ...used);
  if (highest > names.length) return `${table}[${highest}] is used, but it has no name`;
  return null;
}

/**
 * Comments on lines of their own stay out: the text travels when a server does not know the script.
 * @param {string} text
 */
function strip(text) {
  return text
    .split('\n')
    .filter(line => !/^\s*(--.*)?$/.test(line))
    .join('\n');
}

/** @param {string} text */
function quote(text) {
  return `\`${text.replace(/[\\`]|\$(?=\{)/g, found => `\\${found}`)}\``;
}
