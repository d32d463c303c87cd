import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { faultEnv } from '../support/fault-env.ts';

const REPO = fileURLToPath(new URL('../../', import.meta.url));
const PROJECT = join(REPO, 'test/chaos/project');

/** A database with tables of what really ran, and real processes on it. */
export class ChaosKit {
  readonly database: MigratedDatabase;
  readonly #folder = mkdtempSync(join(tmpdir(), 'outlast-chaos-'));
  readonly #processes = new Set<ChildProcess>();
  #faults = 0;

  private constructor(database: MigratedDatabase) {
    this.database = database;
  }

  static async create(name: string): Promise<ChaosKit> {
    const database = await migratedDatabase(name);
    for (const table of ['run', 'effect']) {
      await database.pool.query(
        `create table ${table} (task_id text not null, epoch bigint not null, pid int not null, at timestamptz not null default clock_timestamp())`,
      );
    }
    return new ChaosKit(database);
  }

  /** The variable that arms one fault, and a check whether it has happened. */
  arm(
    name: FaultPointName,
    action: 'kill' | 'stop' = 'kill',
    nth = 1,
  ): { env: Record<string, string>; hasHit(): boolean } {
    const file = join(this.#folder, `hit-${++this.#faults}`);
    return {
      env: faultEnv(`${name}:${action}:${nth}:${file}`),
      hasHit: () => existsSync(file),
    };
  }

  /** A file that handlers may wait for. */
  makeFlag(): { readonly file: string; set(): void } {
    const file = join(this.#folder, `flag-${++this.#faults}`);
    return { file, set: () => writeFileSync(file, '') };
  }

  /** Starts a verb of the command line on the chaos project. */
  start(
    verb: 'relay' | 'worker' | 'resurrector',
    env: Record<string, string> = {},
    script = join(REPO, 'bin/outlast.js'),
  ): ChildProcess {
    const child = spawn(
      process.execPath,
      [script, verb, '--config', join(PROJECT, 'outlast.config.mjs')],
      {
        cwd: PROJECT,
        env: { ...process.env, OUTLAST_DATABASE_URL: this.database.url, ...env },
        stdio: ['ignore', 'ignore', process.env['CHAOS_LOG'] === undefined ? 'ignore' : 'inherit'],
      },
    );
    this.#processes.add(child);
    return child;
  }

  async exited(child: ChildProcess): Promise<string> {
    if (child.exitCode === null && child.signalCode === null)
      await new Promise(resolve => child.once('exit', resolve));
    this.#processes.delete(child);
    return child.signalCode ?? `code ${child.exitCode}`;
  }

  async stop(child: ChildProcess): Promise<string> {
    child.kill('SIGTERM');
    return await this.exited(child);
  }

  /** The pid of the process that runs a task right now. */
  async runnerOf(id: string): Promise<number> {
    return await until(async () => {
      const { rows } = await this.database.pool.query<{ pid: number }>(
        `select r.pid from run r join outlast_task t on t.id = r.task_id and t.epoch = r.epoch and t.state = 'running' where r.task_id = $1`,
        [id],
      );
      return rows[0]?.pid;
    });
  }

  async count(table: 'run' | 'effect', id: string): Promise<number> {
    return (
      (await this.database.pool.query(`select 1 from ${table} where task_id = $1`, [id]))
        .rowCount ?? 0
    );
  }

  /** Ends what a test has left running, so that one that fails takes no task of the next one. */
  async endAll(): Promise<void> {
    for (const child of this.#processes) child.kill('SIGKILL');
    await Promise.all([...this.#processes].map(child => this.exited(child)));
  }

  async dispose(): Promise<void> {
    await this.endAll();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.database.dispose();
  }
}
