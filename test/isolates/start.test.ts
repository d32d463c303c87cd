import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startWorker, task, unchecked, createOutlast } from '../../dist/index.js';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

let database: MigratedDatabase;
const projects: CliProject[] = [];

beforeAll(async () => {
  database = await migratedDatabase('rooms_start');
});

afterEach(async () => {
  for (const project of projects.splice(0)) await project.dispose();
});

afterAll(async () => {
  await database.dispose();
});

const project = (files: Readonly<Record<string, string>>, url = database.url): CliProject => {
  const made = new CliProject(files, { OUTLAST_DATABASE_URL: url });
  projects.push(made);
  return made;
};

const CONFIG = `
  import { defineConfig } from 'outlast';
  export default defineConfig({ tasks: ['./handlers.mjs'] });`;

describe('a handler that is not exported', () => {
  it.each(['thread', 'process'] as const)(
    'cannot run in a %s, and the start reports it',
    async mode => {
      const outlast = createOutlast({ database: database.url });
      const handler = outlast.handler(task('start.hidden'), { mode, run: () => undefined });
      await expect(startWorker(outlast, { tasks: [handler] })).rejects.toMatchObject({
        code: 'ERR_HANDLER_NOT_LOADABLE',
        message: expect.stringContaining('start.hidden') as string,
      });
      await outlast.close();
    },
  );
});

describe('a module that a thread cannot load', () => {
  it.each([
    ['throws', `if (!isMainThread) throw new Error('not in a thread');`, 'not in a thread'],
    ['exits', `if (!isMainThread) process.exit(7);`, 'ended before it had loaded them'],
  ])('ends the worker before it takes a task: it %s', async (_, statement, message) => {
    const made = project({
      'outlast.config.mjs': CONFIG,
      'handlers.mjs': `
        import { isMainThread } from 'node:worker_threads';
        import { createOutlast, task } from 'outlast';
        ${statement}
        const outlast = createOutlast();
        export const h = outlast.handler(task('start.t'), { mode: 'thread', run: () => undefined });`,
    });
    const { code, stdout, stderr } = await made.run('worker', '--json');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('ERR_HANDLER_NOT_LOADABLE');
    expect(stderr).toContain(message);
  });
});

describe('a project in TypeScript that needs jiti', () => {
  it('loads its handlers the same way in threads and processes', async () => {
    const made = project({
      'outlast.config.ts': `
        import { defineConfig } from 'outlast';
        export default defineConfig({ tasks: ['./handlers'] });`,
      'handlers.ts': `
        import { createOutlast, task, unchecked, type HandlerMode } from 'outlast';
        enum Colour { Red = 'red' }
        const outlast = createOutlast();
        const of = (mode: HandlerMode) => outlast.handler(
          task('ts.' + mode, { result: unchecked<string>() }), { mode, run: () => Colour.Red });
        export const [inThread, inProcess] = [of('thread'), of('process')];`,
    });
    const worker = made.start(['worker', '--loader', 'jiti', '--json']);
    await worker.says('worker open');
    const outlast = createOutlast({ database: database.url });
    for (const mode of ['thread', 'process']) {
      const sent = await outlast.push(task(`ts.${mode}`, { result: unchecked<string>() }));
      expect(await sent.result()).toBe('red');
    }
    await outlast.close();
    expect((await worker.stop()).code).toBe(0);
  });
});

/** A process of the user that contains a worker. */
const MAIN = `
  import { startRelay, startWorker } from 'outlast';
  import { outlast, inThread, inProcess } from './handlers.mjs';
  const worker = await startWorker(outlast, { tasks: [inThread, inProcess] });
  const relay = await startRelay(outlast);
  const seen = [];
  for (const { task } of [inThread, inProcess]) {
    const sent = await outlast.transaction(tx => outlast.send(tx, task));
    seen.push(await sent.result());
  }
  await relay.stop();
  await worker.stop();
  await outlast.close();
  console.log(JSON.stringify({ pid: process.pid, seen }));`;

const OWN = `
  import { isMainThread } from 'node:worker_threads';
  import { createOutlast, task, unchecked } from 'outlast';
  import config from './outlast.config.mjs';
  export const outlast = createOutlast(config);
  const of = mode => outlast.handler(task('own.' + mode, { result: unchecked() }), {
    mode,
    run: (_, ctx) => ctx.transaction(async () => ({ pid: process.pid, isMainThread })),
  });
  export const inThread = of('thread');
  export const inProcess = of('process');`;

interface Printed {
  readonly pid: number;
  readonly seen: readonly { readonly pid: number; readonly isMainThread: boolean }[];
}

describe('a worker in a process of the user', () => {
  it.each(['a server', 'an embedded database'])(
    'finds its handlers again in threads and processes, on %s, and leaves nothing behind',
    async kind => {
      const url = kind === 'a server' ? database.url : 'pglite:./data';
      const made = project(
        { 'outlast.config.mjs': CONFIG, 'handlers.mjs': OWN, 'main.mjs': MAIN },
        url,
      );
      const env = { ...process.env, OUTLAST_DATABASE_URL: url };
      const options = { cwd: made.folder, env, timeout: 100_000 };
      const { stdout, stderr } = await promisify(execFile)(process.execPath, ['main.mjs'], options);
      expect(stderr).toBe('');
      const { pid, seen } = json<Printed>(stdout);
      expect(seen[0]).toEqual({ pid, isMainThread: false });
      expect(seen[1]?.isMainThread).toBe(true);
      expect(seen[1]?.pid).not.toBe(pid);
    },
  );
});
