import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PoolClient } from 'pg';
import { createAdmin, type DeadLetterDetails } from '../../dist/admin/index.js';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import {
  createOutlast,
  task,
  unchecked,
  type Outlast,
  type SendOptions,
  type TaskHandle,
} from '../../dist/index.js';
import { CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';

const PROJECT = fileURLToPath(new URL('../isolates/project', import.meta.url));

export type Mode = 'inline' | 'thread' | 'process';

/** What the handlers of the project can be asked to do. */
export interface Deed {
  readonly deed: string;
  readonly at?: string;
  readonly file?: string;
  readonly ms?: number;
}

/** The process or thread in which a handler ran. */
export interface RanIn {
  readonly pid: number;
  readonly threadId: number;
  readonly isMainThread: boolean;
}

/** A database, and `outlast worker` on the project beside this file. */
export class IsolatesKit {
  readonly database: MigratedDatabase;
  readonly outlast: Outlast<PoolClient>;
  readonly #folder = mkdtempSync(join(tmpdir(), 'outlast-isolates-'));
  readonly #processes = new Set<CliProcess>();
  #files = 0;

  private constructor(database: MigratedDatabase) {
    this.database = database;
    this.outlast = createOutlast({ database: database.url, adapter: fromPg(database.pool) });
  }

  static async create(): Promise<IsolatesKit> {
    const database = await migratedDatabase('isolates');
    for (const table of ['run', 'effect']) {
      await database.pool.query(
        `create table ${table} (task_id text not null, epoch bigint not null, pid int not null)`,
      );
    }
    return new IsolatesKit(database);
  }

  /** `outlast worker`, as a person starts it. */
  worker(env: Readonly<Record<string, string>> = {}): CliProcess {
    const own = { OUTLAST_DATABASE_URL: this.database.url, ...env };
    const started = new CliProcess(['worker', '--json'], PROJECT, own);
    this.#processes.add(started);
    return started;
  }

  async push<T = unknown>(
    mode: Mode,
    deed: Deed,
    given: { readonly send?: SendOptions; readonly timeout?: '300ms'; readonly soft?: '50ms' } = {},
  ): Promise<TaskHandle<T>> {
    const contract = task(`isolates.${mode}`, {
      input: unchecked<Deed>(),
      result: unchecked<unknown>(),
      queue: 'isolates',
      ...(given.timeout === undefined ? {} : { timeout: given.timeout }),
      ...(given.soft === undefined ? {} : { softTimeout: given.soft }),
    });
    const sent = (await this.outlast.push(contract, deed, given.send ?? {})) as TaskHandle<T>;
    // Its worker has to start first, which on a busy machine takes longer than the 30 s of a caller.
    return { ...sent, result: options => sent.result({ timeout: '170s', ...options }) };
  }

  /** A file that an endless handler writes to. */
  file(): { readonly path: string; size(): number } {
    const path = join(this.#folder, `file-${++this.#files}`);
    writeFileSync(path, '');
    return { path, size: () => readFileSync(path).length };
  }

  async deadLetter(id: string): Promise<DeadLetterDetails> {
    return await until(() => createAdmin(this.outlast).deadLetters.show(id));
  }

  async count(table: 'run' | 'effect', id: string): Promise<number> {
    const text = `select 1 from ${table} where task_id = $1`;
    return (await this.database.pool.query(text, [id])).rowCount ?? 0;
  }

  /** The process in which a task runs, or ran last. */
  async runnerOf(id: string): Promise<number> {
    const text = 'select pid from run where task_id = $1 order by epoch desc';
    return await until(
      async () => (await this.database.pool.query<{ pid: number }>(text, [id])).rows[0]?.pid,
    );
  }

  async dispose(): Promise<void> {
    for (const started of this.#processes) started.signal('SIGKILL');
    await Promise.all([...this.#processes].map(started => started.ended));
    await this.outlast.close();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.database.dispose();
  }
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
