// @ts-check
/**
 * `npm run outage [-- SECONDS]`: what tells of a RabbitMQ that is away for a minute while 1, 100 and 10,000 rows wait, and after how
 * long. On private servers; by hand, because it takes minutes.
 */
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
  run.env = { ...run.env, ...(await provide(run, ['postgres', 'rabbitmq-server'])) };
  process.exitCode = await inRoot('npm', ['run', '--silent', 'build']);
  const jiti = join('node_modules', 'jiti', 'lib', 'jiti-cli.mjs');
  const program = join('test', 'torture', 'broker-outage.ts');
  if (process.exitCode === 0)
    process.exitCode = await inRoot(process.execPath, [jiti, program, ...process.argv.slice(2)]);
} catch (error) {
  console.error(error instanceof MissingError ? error.message : error);
  process.exitCode = 2;
} finally {
  await run.close();
}
