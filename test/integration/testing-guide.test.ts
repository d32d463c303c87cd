import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase } from '../support/database.ts';

const ROOT = join(import.meta.dirname, '../..');
const GUIDE = readFileSync(join(ROOT, 'docs/guides/testing.md'), 'utf8');

/** The files of the guide, in a project that has Outlast installed. */
function project(): { readonly folder: string } {
  const blocks = GUIDE.matchAll(/^```js\n(\/\/ (\S+\.mjs): [^]*?)^```$/gm);
  const files = Object.fromEntries([...blocks].map(([, text = '', path = '']) => [path, text]));
  const made = new CliProject(files);
  onTestFinished(() => made.dispose());
  const { folder } = made;
  symlinkSync(join(ROOT, 'node_modules/vitest'), join(folder, 'node_modules/vitest'));
  return made;
}

function run(
  folder: string,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<{ code: number; text: string }> {
  return new Promise(resolve => {
    const { NODE_OPTIONS: _, VITEST: __, NODE_TEST_CONTEXT: ___, ...env } = process.env;
    const options = { cwd: folder, env: { ...env, ...more }, timeout: 120_000 };
    const child = execFile(process.execPath, args, options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, text: stdout + stderr }),
    );
  });
}

it('has tests for node:test that pass', async () => {
  const { folder } = project();
  const { code, text } = await run(folder, ['--test', 'shop.test.mjs']);
  expect(text).toMatch(/pass 6\b/);
  expect(code).toBe(0);
});

it('has a handler that is called by hand, with a context of the kit', async () => {
  const { code, text } = await run(project().folder, ['--test', 'refund.test.mjs']);
  expect(text).toMatch(/pass 1\b/);
  expect(code).toBe(0);
});

it('has a test for a database that passes there', async () => {
  const database = await migratedDatabase('testing_guide');
  onTestFinished(() => database.dispose());
  await database.pool.query('create table orders (id text primary key, paid boolean)');
  const env = { OUTLAST_DATABASE_URL: database.url };
  const { code, text } = await run(project().folder, ['--test', 'shop.database.test.mjs'], env);
  expect(text).toMatch(/pass 1\b/);
  expect(code).toBe(0);
});

it('has a test for an outbox in a database that passes there', async () => {
  const database = await migratedDatabase('testing_guide_outbox');
  onTestFinished(() => database.dispose());
  await database.pool.query('create table payments (id text primary key)');
  const { folder } = project();
  const env = { OUTLAST_DATABASE_URL: database.url };
  const { code, text } = await run(folder, ['--test', 'shop.outbox.test.mjs'], env);
  expect(text).toMatch(/pass 3\b/);
  expect(code).toBe(0);
});

it('has a test for vitest that passes with the matcher', async () => {
  const { folder } = project();
  const program = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const config = `export default { test: { include: ['*.vitest.mjs'] } };`;
  writeFileSync(join(folder, 'vitest.config.mjs'), config);
  const { code, text } = await run(folder, [program, 'run', '--root', folder]);
  expect(text).toMatch(/1 passed/);
  expect(code).toBe(0);
});
