// @ts-check
import { join } from 'node:path';
import { ROOT } from './prepare.mjs';

/**
 * Creates an embedded database that tests copy, and returns its folder.
 * @param {import('./servers/test-run.mjs').TestRun} run
 */
export async function provideEmbedded(run) {
  if (process.env.OUTLAST_TEST_EMBEDDED !== undefined) return process.env.OUTLAST_TEST_EMBEDDED;
  const folder = join(run.folder, 'embedded');
  const program = `
    import { mkdirSync } from 'node:fs';
    import { PGlite } from ${JSON.stringify(import.meta.resolve('@electric-sql/pglite'))};
    mkdirSync(process.argv[1], { recursive: true, mode: 0o700 });
    await (await PGlite.create(process.argv[1])).close();`;
  const args = ['--input-type=module', '--eval', program, '--', join(folder, 'data')];
  const code = await run.run(process.execPath, args, {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (code !== 0) throw new Error('The embedded database of the tests could not be created.');
  return folder;
}
