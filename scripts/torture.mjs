// @ts-check
/**
 * `npm run torture -- --tier redis --tasks 10000 --kills 40`: the command line as real processes on private servers,
 * killed and stopped at random while a producer works; then the count. Longer than a test run may be, hence a command of
 * its own. `--celery`: Python and TypeScript workers on one queue, beside the same with Python alone.
 */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, ensureInstalled, requireNode } from './prepare.mjs';
import { MissingError, provide } from './servers/provide.mjs';
import { TestRun } from './servers/test-run.mjs';

const run = new TestRun();
const stop = () => void run.close().then(() => process.exit(130));
process.on('SIGINT', stop).on('SIGTERM', stop);

/** @param {string} program @param {readonly string[]} args */
const inRoot = (program, args) =>
  run.run(program, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });

try {
  requireNode();
  await ensureInstalled({ output: 1 });
  const needs = process.argv.slice(2).join(' ');
  const apart = ['redis', 'rabbitmq'].filter(name => needs.includes(name));
  // It starts one of its own, to be stopped at once.
  if (process.argv.includes('--crashes')) apart.push('postgres-server');
  const isMixed = process.argv.includes('--celery');
  const servers = isMixed ? ['redis-server', 'rabbitmq-server', 'celery'] : apart;
  run.env = { ...run.env, ...(await provide(run, ['postgres', ...servers])) };
  const steps = [
    () => inRoot('npm', ['run', '--silent', 'build']),
    () => inRoot('npm', ['run', '--silent', 'build:tools']),
    () => {
      // The compiler leaves plain JavaScript where it is.
      const file = join('scripts', 'servers', 'rabbitmq-env.mjs');
      cpSync(join(ROOT, file), join(ROOT, '.build', file));
      return inRoot(process.execPath, [
        join('.build', 'test', 'torture', isMixed ? 'mixed-fleet.js' : 'main.js'),
        ...process.argv.slice(2),
      ]);
    },
  ];
  for (const step of steps) {
    process.exitCode = await step();
    if (process.exitCode !== 0) break;
  }
} catch (error) {
  console.error(error instanceof MissingError ? error.message : error);
  process.exitCode = 2;
} finally {
  await run.close();
}
