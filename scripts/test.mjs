// @ts-check
/**
 * `npm test`: installs and starts what the tests need, runs everything, leaves nothing behind.
 * `npm test -- <vitest arguments>` runs only those tests. The last line is the total. `npm run test:all` also runs what
 * `npm test` leaves out because another test shows nearly the same: see test/support/selection.ts.
 */
import { closeSync, openSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { provideEmbedded } from './embedded-template.mjs';
import { provideNode22 } from './node22.mjs';
import {
  PrepareError,
  ROOT,
  ensureInstalled,
  recordBuild,
  requireNode,
  watchParent,
} from './prepare.mjs';
import { MissingError, provide } from './servers/provide.mjs';
import { TestRun } from './servers/test-run.mjs';
import { countTests } from './vitest-report.mjs';

/** @typedef {import('./vitest-report.mjs').Count} Count */

const ALL = '--all';
const isAll = process.argv.includes(ALL);
const vitestArgs = process.argv.slice(2).filter(argument => argument !== ALL);
/** @type {Count} */
const total = { passed: 0, failed: 0 };
const startedAt = performance.now();

async function main() {
  requireNode();
  await ensureInstalled({ output: 1 });
  const run = new TestRun();
  endOnSignal(run);
  try {
    await runAll(run);
  } finally {
    await run.close();
  }
}

/** @param {TestRun} run */
async function runAll(run) {
  await step(run, 'preparation', async () => {
    const [isBuilt, variables, node22, embedded] = await Promise.all([
      build(run),
      provide(run),
      provideNode22(run),
      provideEmbedded(run),
    ]);
    run.env = { ...testEnv(run.env), ...variables };
    Object.assign(run.env, { OUTLAST_TEST_BUILT: '1', OUTLAST_TEST_EMBEDDED: embedded });
    if (isAll) Object.assign(run.env, { OUTLAST_TEST_ALL: '1', OUTLAST_TEST_LONG: '1' });
    if (node22 !== null) run.env.OUTLAST_TEST_NODE22 = node22;
    return vitestArgs.length === 0 || !isBuilt ? one(isBuilt) : { passed: 0, failed: 0 };
  });
  if (vitestArgs.length > 0) {
    await step(run, 'vitest', () => vitest(run));
    return;
  }
  await step(run, 'checks', async () => one(await node(run, ['scripts/check.mjs'])));
  // Tests wait more than they compute, and the simulator never waits: it takes what they leave.
  const [simulated] = await Promise.all([simulate(run), step(run, 'vitest', () => vitest(run))]);
  await step(run, 'simulator', async () => {
    process.stdout.write(simulated.said);
    return simulated.count;
  });
}

/**
 * Adds the outcome of a step to the total and prints how long it took.
 * @param {TestRun} run
 * @param {string} name
 * @param {() => Promise<Count>} work
 */
async function step(run, name, work) {
  if (run.isClosing) return;
  console.log(`\n=== ${name}`);
  const stepStartedAt = performance.now();
  const { passed, failed } = await work();
  // What a signal ended says nothing about the code.
  if (run.isClosing) return;
  total.passed += passed;
  total.failed += failed;
  const outcome = failed > 0 ? 'failed' : passed > 0 ? 'passed' : 'nothing counted';
  console.log(`=== ${name}: ${outcome} (${secondsSince(stepStartedAt)} s)`);
}

/** @param {TestRun} run */
async function build(run) {
  const isGood = await npm(run, ['run', '--silent', 'build']);
  recordBuild(isGood);
  return isGood;
}

/**
 * A few failed files are run once more, alone: beside everything else a machine may be too slow for one of them. Tests that
 * pass then are named, because each of them is a defect, of the test or of the product.
 * @param {TestRun} run
 */
async function vitest(run) {
  const first = await vitestOnce(run, 'vitest.json', vitestArgs);
  if (first.skipped > 0) console.log(`${first.skipped} skipped`);
  if (first.again.length === 0 || vitestArgs.length > 0 || run.isClosing) return first;
  console.log(`\n=== ${first.again.length} failed files once more, alone`);
  const second = await vitestOnce(run, 'vitest-again.json', first.again);
  if (second.failed > 0) return first;
  console.log(
    `\n=== UNSTABLE: failed beside the others and passed alone; each is a defect to mend`,
  );
  for (const name of first.failures) console.log(`  ${name.replace(ROOT, '')}`);
  return { passed: first.passed + first.failed, failed: 0 };
}

/**
 * @param {TestRun} run
 * @param {string} name of the report
 * @param {readonly string[]} args
 */
async function vitestOnce(run, name, args) {
  const report = join(run.folder, name);
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const program = join('node_modules', 'vitest', 'vitest.mjs');
  const isGood = await node(run, [program, 'run', ...reporters, ...args]);
  return countTests(report, isGood);
}

/**
 * Runs at a low priority, and what it says is kept: lines of the tests would stand between its own.
 * @param {TestRun} run
 * @returns {Promise<{ count: Count, said: string }>}
 */
async function simulate(run) {
  const file = join(run.folder, 'simulator.txt');
  const output = openSync(file, 'w');
  /** @param {readonly string[]} command */
  const isGood = async command =>
    !run.isClosing &&
    (await run.run('nice', command, { cwd: ROOT, stdio: ['ignore', output, output] })) === 0;
  try {
    const program = join('.build', 'test', 'sim', 'main.js');
    const sim = [process.execPath, program, '--seed', '1', '--runs', '2000'];
    const isPassed =
      (await isGood(['npm', 'run', '--silent', 'build:tools'])) && (await isGood(sim));
    return { count: one(isPassed), said: readFileSync(file, 'utf8') };
  } finally {
    closeSync(output);
  }
}

/**
 * The user's own Outlast settings must not reach the tests.
 * @param {NodeJS.ProcessEnv} env
 */
function testEnv(env) {
  const isKept = (/** @type {string} */ name) =>
    !name.startsWith('OUTLAST_') || name.startsWith('OUTLAST_TEST_');
  const kept = Object.entries(env).filter(([name]) => isKept(name));
  // jiti keeps what it compiled in the common folder for temporary files: nothing may be left there.
  return { ...Object.fromEntries(kept), JITI_FS_CACHE: 'false' };
}

/**
 * @param {TestRun} run
 * @param {readonly string[]} args
 */
async function node(run, args) {
  return (await run.run(process.execPath, args, { cwd: ROOT, stdio: OUTPUT_ONLY })) === 0;
}

/**
 * @param {TestRun} run
 * @param {readonly string[]} args
 */
async function npm(run, args) {
  return (await run.run('npm', args, { cwd: ROOT, stdio: OUTPUT_ONLY })) === 0;
}

/** @type {import('node:child_process').StdioOptions} */
const OUTPUT_ONLY = ['ignore', 'inherit', 'inherit'];

/**
 * @param {boolean} isGood
 * @returns {Count}
 */
function one(isGood) {
  return isGood ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

/**
 * A signal ends the run, but not before everything is stopped and removed. One Ctrl-C arrives
 * twice, from the terminal and from npm, so further signals change nothing.
 * @param {TestRun} run
 */
function endOnSignal(run) {
  /** @param {NodeJS.Signals} signal */
  const end = signal => {
    if (run.isClosing) return;
    console.log('\nStopping ...');
    void run.close().then(() => process.exit(128 + constants.signals[signal]));
  };
  process.on('SIGINT', end).on('SIGTERM', end).on('SIGHUP', end);
  watchParent(() => end('SIGTERM'));
}

/** @param {number} since */
function secondsSince(since) {
  return ((performance.now() - since) / 1000).toFixed(1);
}

try {
  await main();
  process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1;
} catch (error) {
  const isExplained = error instanceof MissingError || error instanceof PrepareError;
  console.error(isExplained ? error.message : error);
  total.failed += 1;
  process.exitCode = error instanceof MissingError ? 2 : 1;
}
console.log(`\n=== total: ${secondsSince(startedAt)} s`);
console.log(`${total.passed} passed, ${total.failed} failed`);
