import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { build } from 'esbuild';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A worker in the application's own process, with a handler in its process or in one of its own. */
const APPLICATION = `
  import { createOutlast, startWorker, task } from './bundle/index.js';
  const outlast = createOutlast({ database: process.env.OUTLAST_DATABASE_URL, tasks: ['./main.mjs'] });
  export const handler = outlast.handler(task('bundled.task'), { mode: process.argv[2], run: () => undefined });
  if (process.argv[2]) await startWorker(outlast, { tasks: [handler] });`;

/** The files that are found by path only, by what is started from them. */
const PARTS = {
  inline: ['heartbeat-thread.js', 'worker-child.js'],
  thread: ['isolate-thread.js'],
  process: ['isolate-process.js', 'orphan-watch.js'],
};

let database: MigratedDatabase;
let folder: string;

beforeAll(async () => {
  database = await migratedDatabase('bundled');
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-bundled-')));
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

interface Said {
  readonly code: unknown;
  readonly stderr: string;
}

async function run(file: string, mode: string): Promise<Said> {
  const env = { ...process.env, OUTLAST_DATABASE_URL: database.url };
  const child = spawn(process.execPath, [file, mode], { cwd: folder, env });
  onTestFinished(() => void child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.on('data', (part: Buffer) => (stderr += part.toString()));
  const code = await new Promise(resolve => child.once('close', resolve));
  return { code, stderr };
}

describe('a worker that was bundled', () => {
  it('by esbuild, into one file, reports what to mark as external', async () => {
    const { peerDependencies } = manifest as { peerDependencies: Record<string, string> };
    await build({
      stdin: { contents: APPLICATION.replace('./bundle/index.js', 'outlast'), resolveDir: ROOT },
      outfile: join(folder, 'esbuild.mjs'),
      bundle: true,
      platform: 'node',
      format: 'esm',
      external: Object.keys(peerDependencies),
      // A dependency of ours is CommonJS and requires modules of Node.
      banner: {
        js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`,
      },
    });
    const { code, stderr } = await run('esbuild.mjs', 'inline');
    expect(code).toBe(1);
    expect(stderr).toContain('ERR_PARTS_MISSING');
    expect(stderr).toContain('--external:outlast');
  });

  it('by webpack, which copies one file under another name, reports the same', async () => {
    cpSync(join(ROOT, 'dist'), join(folder, 'bundle'), { recursive: true });
    const heartbeat = join(folder, 'bundle/process/heartbeat');
    renameSync(join(heartbeat, 'heartbeat-thread.js'), join(folder, '5253a5ed.js'));
    const client = join(heartbeat, 'heartbeat-client.js');
    const asset = `new URL('../../../5253a5ed.js'`;
    const code = readFileSync(client, 'utf8');
    writeFileSync(client, code.replace(`new URL('./heartbeat-thread.js'`, asset));
    const ended = await run('main.mjs', 'inline');
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('heartbeat-thread.js is missing');
    expect(ended.stderr).toContain('webpack: externals');
  });

  it.each(['inline', 'thread', 'process'] as const)(
    'reports the missing files and exits: %s',
    async mode => {
      // What a bundler leaves: the code, without those files.
      const missing = PARTS[mode];
      cpSync(join(ROOT, 'dist'), join(folder, 'bundle'), { recursive: true });
      const files = readdirSync(join(folder, 'bundle'), { recursive: true }).map(String);
      const left = files.filter(file => missing.includes(basename(file)));
      expect(left).toHaveLength(missing.length);
      for (const file of left) rmSync(join(folder, 'bundle', file));
      const { code, stderr } = await run('main.mjs', mode);
      expect(code).toBe(1);
      expect(stderr).toContain('ERR_PARTS_MISSING');
      expect(stderr).toContain(`${missing[0]} is missing`);
      expect(stderr).toContain('--external:outlast');
    },
  );
});
