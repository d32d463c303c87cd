import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A worker in the application's own process, with a handler in its process or in one of its own. */
const APPLICATION = `
  import { createOutlast, startWorker, task } from './bundle/index.js';
  const outlast = createOutlast({ database: process.env.OUTLAST_DATABASE_URL, tasks: ['./main.mjs'] });
  export const handler = outlast.handler(task('bundled.task'), { mode: process.argv[2], run: () => undefined });
  if (process.argv[2]) await startWorker(outlast, { tasks: [handler] });`;

let database: MigratedDatabase;
let folder: string;

beforeAll(async () => {
  database = await migratedDatabase('bundled');
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-bundled-')));
  // What a bundler leaves: the code, without the files that are found by path only.
  const PARTS = /(?:heartbeat-thread|worker-child|room-thread|room-process|orphan-watch)\.js$/;
  cpSync(join(ROOT, 'dist'), join(folder, 'bundle'), {
    recursive: true,
    filter: file => !PARTS.test(file),
  });
  mkdirSync(join(folder, 'node_modules'));
  for (const name of ['pg', 'lossless-json', 'hono', 'commander'])
    symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'main.mjs'), APPLICATION);
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await database.dispose();
});

describe('a worker that was bundled', () => {
  it.each(['inline', 'thread', 'process'])(
    'reports the missing files and exits: %s',
    async mode => {
      const env = { ...process.env, OUTLAST_DATABASE_URL: database.url };
      const child = spawn(process.execPath, ['main.mjs', mode], { cwd: folder, env });
      onTestFinished(() => void child.kill('SIGKILL'));
      let stderr = '';
      child.stderr.on('data', (part: Buffer) => (stderr += part.toString()));
      const code = await new Promise(resolve => child.once('close', resolve));
      expect(code).toBe(1);
      expect(stderr).toContain('ERR_PARTS_MISSING');
      expect(stderr).toContain('--external:outlast');
    },
  );
});
