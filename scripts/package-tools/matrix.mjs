// @ts-check
/** What the package is installed with. Versions are those of package.json beside this file. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const HERE = import.meta.dirname;

/**
 * @typedef {object} Manager
 * @property {string} name
 * @property {string} folder of its program; empty for the npm of this machine
 * @property {(command: string) => string} translate a command of the README, which says it for npm
 * @property {Readonly<Record<string, string>>} files what makes an empty folder a project for it
 * @property {Readonly<Record<string, string>>} [filesBeforeNode22] of a CommonJS project there
 *
 * @typedef {object} Kind
 * @property {'esm' | 'cjs'} name
 * @property {string} extension
 *
 * @typedef {object} Cell
 * @property {string} node
 * @property {Manager} manager
 * @property {Kind} kind
 */

export const VERSIONS = ['node20', 'node22', 'node24'];

/** @type {readonly Kind[]} */
export const KINDS = [
  { name: 'esm', extension: 'mjs' },
  { name: 'cjs', extension: 'js' },
];

const YARN4 = join(HERE, 'node_modules', '@yarnpkg', 'cli-dist', 'bin', 'yarn.js');
const BIN = join(HERE, 'node_modules', '.bin');

/** @param {readonly (readonly [RegExp, string])[]} rules */
const rewrite = rules => (/** @type {string} */ command) =>
  rules.reduce((text, [from, to]) => text.replace(from, to), command);

/** @type {readonly Manager[]} */
export const MANAGERS = [
  { name: 'npm', folder: '', translate: command => command, files: {} },
  {
    name: 'pnpm',
    folder: BIN,
    translate: rewrite([
      [/^npm i /, 'pnpm add '],
      [/^npx /, 'pnpm exec '],
    ]),
    files: {},
  },
  {
    name: 'yarn1',
    folder: join(HERE, 'node_modules', 'yarn', 'bin'),
    translate: rewrite([
      [/^npm i /, 'yarn add --silent '],
      [/^npx /, 'yarn run --silent '],
    ]),
    files: { 'package.json': '{ "license": "MIT" }\n' },
  },
  {
    // Plug'n'Play: there is no node_modules, and a package that uses what it does not declare fails.
    name: 'yarn4',
    folder: '',
    translate: rewrite([
      [/^node /, `node ${YARN4} node `],
      [/^npm i (\S+\.tgz)/, `node ${YARN4} add outlast@file:$1`],
      [/^npx /, `node ${YARN4} run `],
    ]),
    files: { 'package.json': '{}\n', 'yarn.lock': '' },
    // The loader of Node 20 does not ask Plug'n'Play what `require` of an ES module leads to.
    filesBeforeNode22: { '.yarnrc.yml': 'nodeLinker: node-modules\n' },
  },
];

/**
 * The path of that Node; null where it is not made for this machine.
 * @param {string} version
 */
export function nodeBinary(version) {
  const file = join(HERE, 'node_modules', version, 'bin', 'node');
  return existsSync(file) ? file : null;
}
