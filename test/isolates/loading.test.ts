import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openIsolate } from '../../dist/process/isolate/open-isolate.js';
import { systemClock } from '../../src/runtime/runtime.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { isAlive } from './isolates-kit.ts';

/** Writes the process that is to be killed afterwards, and never comes to an end. */
const ENDLESS = {
  waits: `
    import { writeFileSync } from 'node:fs';
    writeFileSync(process.env.LOADING_FILE, String(process.pid));
    await new Promise(() => setInterval(() => undefined, 1_000));`,
  'is in native code': `
    import { execFileSync } from 'node:child_process';
    execFileSync('sh', ['-c', 'echo $$ > "$LOADING_FILE"; exec sleep 600']);`,
};

it.each([
  ['process', 'waits'],
  ['thread', 'waits'],
  ['thread', 'is in native code'],
] as const)('a %s whose module %s while it loads is given up', async (mode, how) => {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-loading-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [module, started] = [join(folder, 'handlers.mjs'), join(folder, 'started')];
  writeFileSync(module, ENDLESS[how]);
  process.env['LOADING_FILE'] = started;
  onTestFinished(() => void delete process.env['LOADING_FILE']);
  const timers: (() => void)[] = [];
  // Its limits are over when the test says so.
  const clock = {
    ...systemClock,
    timer: (_ms: number, fn: () => void) => {
      timers.push(fn);
      return () => undefined;
    },
  };
  const loader = { kind: 'native', base: module } as const;
  const handlers = { patterns: [module], base: module, loader, modules: [] };
  const spec = { handlers, parentPid: process.pid };
  const opening = openIsolate(mode, spec, { log: silentLogger, clock, hasKeys: false });
  opening.catch(() => undefined);
  const pid = await until(async () => existsSync(started) && Number(readFileSync(started, 'utf8')));
  if (how === 'is in native code') onTestFinished(() => void process.kill(pid));
  timers[0]?.();
  // The kill of a thread in native code has no effect before that code returns.
  if (how === 'is in native code') (await until(async () => timers[1]))();
  await expect(opening).rejects.toMatchObject({
    code: 'ERR_HANDLER_NOT_LOADABLE',
    message: expect.stringContaining('has not loaded them within 60 s') as string,
  });
  if (mode === 'process') expect(isAlive(pid)).toBe(false);
});

it('a worker process whose module waits while it loads ends with its supervisor', async () => {
  const database = await migratedDatabase('loading');
  onTestFinished(() => database.dispose());
  const project = new CliProject(
    {
      'outlast.config.mjs': `export default { tasks: ['./handlers.mjs'] };`,
      'handlers.mjs': `process.env.LOADING_FILE = 'started';${ENDLESS.waits}`,
    },
    { OUTLAST_DATABASE_URL: database.url },
  );
  onTestFinished(() => project.dispose());
  const started = join(project.folder, 'started');
  const supervisor = project.start(['worker', '--processes', '1']);
  const pid = await until(async () => existsSync(started) && Number(readFileSync(started, 'utf8')));
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, 'SIGKILL')));
  supervisor.signal('SIGKILL');
  await until(async () => !isAlive(pid));
});
