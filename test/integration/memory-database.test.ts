import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { DevProcess, ROOT } from '../support/dev-process.ts';

const CONFIG = `export default { database: 'pglite:memory://', tasks: ['./handlers.mjs'] };`;
/** One handler in the process that has the database, one in a thread of it. */
const HANDLERS = `
  import { createOutlast, task, unchecked } from 'outlast';
  import config from './outlast.config.mjs';
  export const outlast = createOutlast(config);
  export const [inline, thread] = ['inline', 'thread'].map(mode =>
    outlast.handler(task('memory.' + mode, { input: unchecked(), result: unchecked() }), {
      mode,
      run: async ({ n }, ctx) => await ctx.transaction(async () => n + 1),
    }),
  );`;
const APPLICATION = `
  import { startWorker } from 'outlast';
  import { inline, outlast, thread } from './handlers.mjs';
  const worker = await startWorker(outlast, { tasks: [inline, thread] });
  const sent = await outlast.transaction(tx =>
    outlast.sendMany(tx, [inline, thread].map((handler, at) => handler.task.with({ n: at }))));
  console.log(JSON.stringify(await Promise.all(sent.map(one => one.result({ timeout: '60s' })))));
  await worker.stop();
  await outlast.close();`;

function project(): CliProject {
  const made = new CliProject({
    'outlast.config.mjs': CONFIG,
    'handlers.mjs': HANDLERS,
    'app.mjs': APPLICATION,
  });
  symlinkSync(
    join(ROOT, 'node_modules/@electric-sql'),
    join(made.folder, 'node_modules/@electric-sql'),
  );
  onTestFinished(() => made.dispose());
  return made;
}

it('pglite:memory:// serves an application with its handlers and threads, and leaves no file', async () => {
  const { folder } = project();
  const before = readdirSync(folder);
  const temporary = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-memory-test-')));
  onTestFinished(() => rmSync(temporary, { recursive: true, force: true }));
  const { stdout } = await promisify(execFile)(process.execPath, ['app.mjs'], {
    cwd: folder,
    env: { ...process.env, TMPDIR: temporary },
  });
  expect(json(stdout)).toEqual([1, 2]);
  expect(readdirSync(folder)).toEqual(before);
  expect(readdirSync(temporary)).toEqual([]);
});

it('pglite:memory:// is shared by outlast dev with its worker processes', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-memory-dev-')));
  const dev = await DevProcess.start(folder, { env: { OUTLAST_DATABASE_URL: 'pglite:memory://' } });
  onTestFinished(async () => {
    await dev.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const { taskId } = await dev.order();
  await dev.untilTask(taskId, 'done', ({ state }) => state === 'done');
  expect(dev.stderr).toContain('opening PGlite in memory');
  expect(readdirSync(folder)).toEqual([]);
});

it('pglite:memory:// is refused by commands that would have a memory of their own', async () => {
  const made = project();
  for (const args of [
    ['send', 'memory.inline'],
    ['migrate'],
    ['worker'],
    ['stats'],
    ['resurrector'],
  ]) {
    const ended = await made.run(...args, '--json');
    expect(ended.code).toBe(2);
    expect(json<JsonError>(ended.stderr).error).toMatchObject({ code: 'ERR_CONFIG_TIER' });
  }
  expect((await made.run('config', 'show')).stdout).toContain('pglite:memory://');
});
