// @ts-check
/**
 * `npm run test:package`: packs the package and tries it as a new user would. The tarball goes into an empty folder,
 * and the commands and files of the README's quick start run there word by word, on every Node that is supported, with
 * every package manager, as ES modules and as CommonJS. `npm run test:package -- node22 pnpm` runs only what these name.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { KINDS, MANAGERS, VERSIONS, nodeBinary } from './package-tools/matrix.mjs';
import { runQuickStart } from './package-tools/quick-start.mjs';
import { ROOT, ensureInstalled, requireNode, watchParent } from './prepare.mjs';
import { provide } from './servers/provide.mjs';
import { TestRun } from './servers/test-run.mjs';

/** @typedef {import('./package-tools/matrix.mjs').Cell} Cell */

const TOOLS = join(ROOT, 'scripts', 'package-tools');
/** What a worker needs. A new one has its reason in docs/decisions/0001-dependencies.md. */
const DEPENDENCIES = ['commander', 'croner', 'lossless-json'];
/** Two, because a cell waits for the network and for a database more than it computes. */
const AT_ONCE = 2;

const run = new TestRun();
/** @type {string[]} */
const failed = [];
let passed = 0;

async function main() {
  requireNode();
  await ensureInstalled();
  await ensureInstalled({ folder: TOOLS });
  const tarball = await pack();
  await step('publint', () => tool('publint', ['run', tarball, '--strict'], ROOT));
  // The package is ESM: what resolves `exports` loads it, and `require` does since Node 20.19.
  const attw = [tarball, '--profile', 'esm-only', '--no-color', '--format', 'ascii'];
  await step('are the types wrong', () => tool('attw', attw, TOOLS));
  await step('bill of materials', billOfMaterials);
  await step('what an install brings', () => installPath(tarball));
  await matrix(tarball);
}

/** Builds anew and packs, as `npm publish` would. */
async function pack() {
  const args = ['pack', '--silent', '--pack-destination', run.folder];
  if ((await run.run('npm', args, quiet())) !== 0) throw new Error('npm pack failed');
  const [name] = readdirSync(run.folder).filter(one => one.endsWith('.tgz'));
  if (name === undefined) throw new Error('npm pack made no file');
  return join(run.folder, name);
}

/** @param {string} tarball */
async function matrix(tarball) {
  const wanted = process.argv.slice(2);
  const all = VERSIONS.flatMap(node =>
    MANAGERS.flatMap(manager => KINDS.map(kind => ({ node, manager, kind }))),
  );
  const cells = all.filter(({ node, manager, kind }) =>
    wanted.every(name => [node, manager.name, kind.name].includes(name)),
  );
  if (cells.length === 0) throw new Error(`nothing is called ${wanted.join(' ')}`);
  Object.assign(run.env, await provide(run, ['postgres']));
  const here = cells.filter(({ node }) => nodeBinary(node) !== null);
  for (const { node } of cells.filter(cell => !here.includes(cell)))
    failed.push(`${node} cannot be had on ${process.platform}-${process.arch}`);
  const left = here.values();
  await Promise.all(Array.from({ length: AT_ONCE }, () => work(left, tarball)));
}

/**
 * @param {IterableIterator<Cell>} left
 * @param {string} tarball
 */
async function work(left, tarball) {
  for (const cell of left) {
    if (run.isClosing) return;
    const name = `${cell.node} ${cell.manager.name} ${cell.kind.name}`;
    await step(name, () => runQuickStart(run, cell, tarball));
  }
}

/** The packages that come with this one, by the lockfile: each with version and hash. */
async function billOfMaterials() {
  const child = await run.start('npm', ['run', '--silent', 'sbom'], quiet('pipe'));
  const [text] = await Promise.all([read(child.stdout), once(child, 'close')]);
  /** @type {{ components: readonly { name: string, hashes?: readonly object[] }[] }} */
  const { components } = JSON.parse(text);
  const names = components.map(({ name }) => name).toSorted();
  if (JSON.stringify(names) !== JSON.stringify(DEPENDENCIES))
    throw new Error(`the package comes with ${names.join(', ')}`);
  const bare = components.filter(({ hashes = [] }) => hashes.length === 0);
  if (bare.length > 0) throw new Error(`no hash: ${bare.map(({ name }) => name).join(', ')}`);
}

/**
 * The same from the other side: what stands in node_modules when this package alone is installed.
 * @param {string} tarball
 */
async function installPath(tarball) {
  const folder = join(run.folder, 'alone');
  mkdirSync(folder);
  const args = ['install', '--prefix', folder, '--no-audit', '--no-fund', '--silent', tarball];
  if ((await run.run('npm', args, quiet())) !== 0) throw new Error('npm install failed');
  const installed = readdirSync(join(folder, 'node_modules')).filter(name => !/^[.]/.test(name));
  const wanted = [...DEPENDENCIES, 'outlast'].toSorted();
  if (JSON.stringify(installed.toSorted()) !== JSON.stringify(wanted))
    throw new Error(`an install brings ${installed.join(', ')}`);
}

/**
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} folder where it is installed
 */
async function tool(program, args, folder) {
  const file = join(folder, 'node_modules', '.bin', program);
  const child = await run.start(process.execPath, [file, ...args], quiet('pipe'));
  const [text, , [code]] = await Promise.all([
    read(child.stdout),
    read(child.stderr),
    once(child, 'close'),
  ]);
  if (code !== 0) throw new Error(text);
}

/** @param {import('node:stream').Readable | null} stream */
async function read(stream) {
  let text = '';
  for await (const part of stream ?? []) text += part;
  return text;
}

/** @param {'pipe' | 'ignore'} [output] */
function quiet(output = 'ignore') {
  /** @type {import('node:child_process').StdioOptions} */
  const stdio = ['ignore', output, output === 'pipe' ? 'pipe' : 'inherit'];
  return { cwd: ROOT, stdio };
}

/**
 * @param {string} name
 * @param {() => Promise<void>} action
 */
async function step(name, action) {
  const startedAt = performance.now();
  try {
    await action();
    passed += 1;
    console.log(`ok     ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`);
  } catch (error) {
    if (run.isClosing) return;
    failed.push(name);
    console.log(`FAILED ${name}\n${error instanceof Error ? error.message : String(error)}`);
  }
}

process.on('SIGINT', stop).on('SIGTERM', stop);
watchParent(stop);

function stop() {
  void run.close().then(() => process.exit(130));
}

try {
  await main();
} finally {
  await run.close();
}
console.log(
  `${passed} passed, ${failed.length} failed${failed.map(name => `\n  ${name}`).join('')}`,
);
process.exitCode = failed.length === 0 && passed > 0 ? 0 : 1;
