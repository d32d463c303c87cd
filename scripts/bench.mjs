// @ts-check
/**
 * `npm run bench -- --only enqueue,relay [--quick] [--json]`: measures speed side by side on private servers with durable
 * settings. `bench/` is a package of its own: what it compares with is installed on first use.
 */
import { join } from 'node:path';
import { FIGURES, UsageError, readArguments } from '../bench/figures.mjs';
import { ROOT, ensureBuilt, ensureInstalled, requireNode } from './prepare.mjs';
import { MissingError, provide } from './servers/provide.mjs';
import { TestRun } from './servers/test-run.mjs';

const args = process.argv.slice(2);
const run = new TestRun();
const stop = () => void run.close().then(() => process.exit(130));
process.on('SIGINT', stop).on('SIGTERM', stop);

try {
  const { names } = readArguments(args);
  requireNode();
  await ensureInstalled();
  await ensureBuilt();
  await ensureInstalled({ folder: join(ROOT, 'bench') });
  const servers = new Set(names.flatMap(name => FIGURES[name]?.servers ?? []));
  run.env = { ...run.env, ...(await provide(run, [...servers], { isDurable: true })) };
  process.exitCode = await run.run(process.execPath, [join('bench', 'main.mjs'), ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
} catch (error) {
  const isPlain = error instanceof MissingError || error instanceof UsageError;
  console.error(isPlain ? error.message : error);
  process.exitCode = 2;
} finally {
  await run.close();
}
