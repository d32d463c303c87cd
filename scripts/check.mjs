// @ts-check
/** `npm run check`: everything that can be said about the code without running it. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PrepareError, ROOT, ensureBuilt, ensureInstalled, requireNode, say } from './prepare.mjs';

/** @typedef {{ isGood: boolean, output: string }} Verdict */

const FORMATTED = ['src', 'test', 'scripts', 'bin', 'examples', 'bench', 'vitest.config.ts'];

/** @type {Record<string, () => Promise<Verdict>>} */
const CHECKS = {
  // Before the build, which would write them anew.
  'embedded files': () => node(['scripts/embed-assets.mjs', '--check']),
  options: () => node(['scripts/write-options.mjs', '--check']),
  metrics: () => node(['scripts/write-metrics.mjs', '--check']),
  // Tests import what is built, and so their types come from there.
  build,
  types: () => tool('typescript', 'tsc', ['--noEmit', '--pretty', 'false']),
  'types of scripts': () => tool('typescript', 'tsc', ['-p', 'scripts', '--pretty', 'false']),
  'API reference': () => node(['scripts/write-api.mjs', '--check']),
  lint: () => tool('oxlint', 'oxlint', ['--type-aware', '--report-unused-disable-directives']),
  format: () =>
    tool('oxfmt', 'oxfmt', ['--check', '--no-error-on-unmatched-pattern', ...FORMATTED]),
  imports: () => node(['scripts/check-imports.mjs']),
  'unused code': () => tool('knip', 'knip', ['--no-progress']),
  // Tests do not count here: a file that only tests use would be in the package for no user.
  'unused files of the package': () =>
    tool('knip', 'knip', ['--no-progress', '--production', '--include', 'files']),
  // Without packing: npm would build again first, and the file list is a matter for a test.
  package: () => tool('publint', 'publint', ['run', '--strict', '--pack', 'false']),
  lockfile: () => node(['scripts/complete-lockfile.mjs', '--check']),
};

/** @returns {Promise<Verdict>} */
async function build() {
  try {
    await ensureBuilt();
    return { isGood: true, output: '' };
  } catch (error) {
    if (!(error instanceof PrepareError)) throw error;
    return { isGood: false, output: error.message };
  }
}

/**
 * Runs a program of a package, without npx: that would look for it in the registry.
 * @param {string} name
 * @param {string} program
 * @param {readonly string[]} args
 */
function tool(name, program, args) {
  const folder = join('node_modules', name);
  const { bin } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
  return node([join(folder, typeof bin === 'string' ? bin : bin[program]), ...args]);
}

/**
 * @param {readonly string[]} args
 * @returns {Promise<Verdict>}
 */
function node(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const add = (/** @type {Buffer} */ part) => (output += part.toString());
    child.stdout.on('data', add);
    child.stderr.on('data', add);
    child.on('error', reject);
    child.on('close', code => resolve({ isGood: code === 0, output }));
  });
}

async function main() {
  requireNode();
  await ensureInstalled();
  const failed = [];
  for (const [name, check] of Object.entries(CHECKS)) {
    const startedAt = performance.now();
    const { isGood, output } = await check();
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${isGood ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
    if (isGood) continue;
    failed.push(name);
    console.log(output.trimEnd());
  }
  if (failed.length > 0) console.log(`Failed: ${failed.join(', ')}`);
  return failed.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof PrepareError)) throw error;
  say(error.message);
  process.exitCode = 1;
}
