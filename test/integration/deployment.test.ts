import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { CliProject, SHOP } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'examples/03-deployment');
/** A namespace where a command is process 1, as in a container. */
const NAMESPACE = ['--pid', '--fork', '--mount-proc', '--kill-child'];
const isPermitted = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** Every list of words that is a command, with its file. */
function commandsOf(file: string): readonly (readonly string[])[] {
  const text = readFileSync(join(FOLDER, file), 'utf8');
  const lists = text.matchAll(/^(?:CMD| +command:)\s+\[([^\]]+)\]$/gm);
  return Array.from(lists, ([, list = '']) =>
    list
      .split(',')
      .map(word => word.trim().replaceAll(/['"]/g, ''))
      .filter(Boolean),
  );
}

const FILES = ['Dockerfile', 'compose.yaml', 'kubernetes.yaml'];
const COMMANDS = FILES.flatMap(file => commandsOf(file).map(words => ({ file, words })));
const verbOf = (words: readonly string[]): string => words[2] ?? '';

it('has a command for every process in the manifests, none of them through npm or a shell', () => {
  expect(commandsOf('Dockerfile').map(verbOf)).toEqual(['worker']);
  for (const file of ['compose.yaml', 'kubernetes.yaml'])
    expect(commandsOf(file).map(verbOf)).toEqual(['migrate', 'worker', 'resurrector']);
  for (const { words } of COMMANDS)
    expect(words.slice(0, 2)).toEqual(['node', 'node_modules/outlast/bin/outlast.js']);
});

it('gives each worker more time to end than it takes to drain', () => {
  const text = FILES.map(file => readFileSync(join(FOLDER, file), 'utf8')).join('');
  const grace = text.matchAll(/(?:stop_grace_period: |terminationGracePeriodSeconds: )(\d+)/g);
  const drain = text.matchAll(/--shutdown-timeout[",]*\s+['"](\d+)/g);
  const longest = Math.max(...Array.from(drain, ([, seconds]) => Number(seconds)));
  const seconds = Array.from(grace, ([, one]) => Number(one));
  expect(seconds).toHaveLength(2);
  for (const one of seconds) expect(one).toBeGreaterThanOrEqual(longest + 10);
});

describe.skipIf(!isPermitted)('as process 1 of a container', () => {
  let database: MigratedDatabase;
  let project: CliProject;

  beforeAll(async () => {
    database = await migratedDatabase('deployment');
    project = new CliProject(SHOP);
  });
  afterAll(async () => {
    await project.dispose();
    await database.dispose();
  });

  it.each(COMMANDS.filter(({ words }) => verbOf(words) !== 'migrate'))(
    '$file: $words.2 starts, drains on SIGTERM and exits with 0',
    async ({ words }) => {
      const port = String(await freePort());
      const [program = '', ...args] = words.map(word => (word === '8080' ? port : word));
      const own = Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLAST_'));
      const child = spawn('unshare', [...NAMESPACE, program, ...args], {
        cwd: project.folder,
        env: { ...Object.fromEntries(own), OUTLAST_DATABASE_URL: database.url },
        stdio: ['ignore', 'inherit', 'pipe'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      let log = '';
      child.stderr.on('data', (part: Buffer) => (log += part.toString()));
      const ended = new Promise(resolve => child.once('close', code => resolve(code)));
      const started = verbOf(words) === 'worker' ? 'worker open' : 'resurrector';
      await until(async () => log.includes(started) || child.exitCode !== null);
      process.kill(initOf(child), 'SIGTERM');
      expect(await ended).toBe(0);
    },
  );
});

/** Process 1 of the namespace, by its id outside of it. */
function initOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
}
