import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliProject } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';

/** Needs permission to create namespaces: root, or a kernel that allows it to all users. */
const NAMESPACE = ['--pid', '--fork', '--mount-proc', '--kill-child'];
const isPermitted = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** A handler in its own process, which reports its start and ends when the test allows it. */
const SERVICE: Readonly<Record<string, string>> = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'] });`,
  'handlers.mjs': `
    import pg from 'pg';
    import { createOutlast, task } from 'outlast';
    import config from './outlast.config.mjs';
    const pool = new pg.Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
    const outlast = createOutlast(config);
    const run = async (_, ctx) => {
      await pool.query('insert into began values ($1)', [ctx.id]);
      for (;;) {
        const { rowCount } = await pool.query('select from goes_on where id = $1', [ctx.id]);
        if (rowCount) return;
        await new Promise(resolve => setTimeout(resolve, 20));
      }
    };
    export const apart = outlast.handler(task('pid.apart'), { mode: 'process', run });`,
};

/** The command of the manifest, exactly as the page shows it. */
function manifestCommand(port: number): readonly string[] {
  const page = fileURLToPath(new URL('../../docs/operations/kubernetes.md', import.meta.url));
  const [, list = ''] = /^ +command: \[(.+)\]$/m.exec(readFileSync(page, 'utf8')) ?? [];
  const words = list.split(',').map(word => word.trim().replaceAll("'", ''));
  return words.map(word => (word === '8080' ? String(port) : word));
}

const childrenOf = (pid: number): readonly number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number);

/** Neither gone nor a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

describe.skipIf(!isPermitted)('the command of the manifest as PID 1 of a namespace', () => {
  let database: MigratedDatabase;
  let project: CliProject;
  let unshare: ChildProcess;
  let log = '';
  /** PID 1 of the namespace, by its id outside of it. */
  let init: number;

  beforeAll(async () => {
    database = await migratedDatabase('pid_one');
    await database.pool.query('create table began (id text); create table goes_on (id text)');
    const env = { OUTLAST_DATABASE_URL: database.url };
    project = new CliProject(SERVICE, env);
    const [program = '', ...args] = manifestCommand(await freePort());
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('OUTLAST_'));
    unshare = spawn('unshare', [...NAMESPACE, program, ...args], {
      cwd: project.folder,
      env: { ...Object.fromEntries(own), ...env },
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    unshare.stderr?.on('data', (part: Buffer) => (log += part.toString()));
    await until(async () => log.includes('worker open') || unshare.exitCode !== null);
    [init = 0] = childrenOf(unshare.pid ?? 0);
  });

  afterAll(async () => {
    unshare.kill('SIGKILL');
    await project.dispose();
    await database.dispose();
  });

  const sent = async (id: string): Promise<void> => {
    await project.run('send', 'pid.apart', '--id', id);
    await project.run('relay', '--drain');
    const began = `select from began where id = '${id}'`;
    await until(async () => (await database.pool.query(began)).rowCount);
  };

  it('survives a killed worker, whose handler process ends; the task runs again', async () => {
    await sent('orphaned');
    const [worker = 0] = childrenOf(init);
    const [handler = 0] = childrenOf(worker);
    process.kill(worker, 'SIGKILL');
    await until(async () => !isRunning(handler));
    await database.pool.query(`insert into goes_on values ('orphaned')`);
    const done = `select from outlast_task where id = 'orphaned' and state = 'done'`;
    await until(async () => (await database.pool.query(done)).rowCount);
    // It cannot reap processes that it did not start, and names the one that can.
    expect(log).toContain('node reaps no orphans');
  });

  it('is node itself, which receives SIGTERM, drains and exits with 0', async () => {
    expect(readFileSync(`/proc/${init}/status`, 'utf8')).toMatch(/^NSpid:\s+\d+\s+1$/m);
    await sent('held');
    const ended = new Promise(resolve => {
      unshare.once('close', (code, signal) => resolve({ code, signal }));
    });
    process.kill(init, 'SIGTERM');
    await until(async () => log.includes('draining'));
    await database.pool.query(`insert into goes_on values ('held')`);
    expect(await ended).toEqual({ code: 0, signal: null });
    const { rows } = await database.pool.query(`select state from outlast_task where id = 'held'`);
    expect(rows).toEqual([{ state: 'done' }]);
  });
});
