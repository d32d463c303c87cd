// @ts-check
/**
 * Runs the servers of the tests until Ctrl-C, for working on one test with vitest alone:
 * `node scripts/servers.mjs [name ...]` prints the variables to export.
 */
import { MissingError, provide } from './servers/provide.mjs';
import { TestRun } from './servers/test-run.mjs';

const names = process.argv.slice(2);
const run = new TestRun();
const stop = () => void run.close().then(() => process.exit());
process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop);

try {
  const variables = await provide(run, names.length === 0 ? undefined : names);
  for (const [name, value] of Object.entries(variables)) console.log(`export ${name}=${value}`);
  console.error('Running until Ctrl-C.');
} catch (error) {
  if (!run.isClosing) {
    console.error(error instanceof MissingError ? error.message : error);
    process.exitCode = 2;
  }
  stop();
}
