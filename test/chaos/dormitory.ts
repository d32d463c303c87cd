import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { createOutlast, startRelay, startResurrector, type Outlast } from '../../dist/index.js';
import type { FaultPointName } from '../../src/runtime/runtime.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { startRedis } from '../support/redis-server.ts';
import { faultEnv } from '../support/fault-env.ts';

const SCRIPT = fileURLToPath(new URL('sleeper.mjs', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../bin/outlast.js', import.meta.url));
/** As in `sleeper.mjs`. */
export const LEASE_MS = 2_000;

/** The options of a configuration besides the database. */
export interface Servers {
  readonly broker?: string;
  readonly ledger?: string;
}

/** A Redis until the test is over. */
export async function ownRedis(): Promise<string> {
  const redis = await startRedis(['--appendonly', 'yes']);
  onTestFinished(() => redis.dispose());
  return redis.url;
}

/**
 * A database with a record of what ran, relay and recovery in this process, and worker processes (`sleeper.mjs`) that
 * may be put to sleep.
 */
export class Dormitory {
  readonly outlast: Outlast;
  readonly database: MigratedDatabase;
  readonly #servers: Servers;
  readonly #folder = mkdtempSync(join(tmpdir(), 'outlast-sleep-'));

  private constructor(database: MigratedDatabase, servers: Servers) {
    this.database = database;
    this.#servers = servers;
    this.outlast = createOutlast({
      database: database.url,
      ...servers,
      worker: { lease: `${LEASE_MS}ms`, beat: '300ms' },
    });
  }

  /** `recovers` false: the tasks of dead processes are not brought back until `recover` is called. */
  static async open(servers: Servers, { recovers = true } = {}): Promise<Dormitory> {
    const database = await migratedDatabase('sleepers');
    for (const table of ['run', 'effect']) {
      await database.pool.query(
        `create table ${table} (task_id text not null, name text not null, epoch bigint not null)`,
      );
    }
    const dormitory = new Dormitory(database, servers);
    onTestFinished(async () => {
      await dormitory.outlast.close();
      await database.dispose();
      rmSync(dormitory.#folder, { recursive: true, force: true });
    });
    const relay = await startRelay(dormitory.outlast);
    onTestFinished(() => relay.stop());
    if (recovers) await dormitory.recover();
    return dormitory;
  }

  async recover(): Promise<void> {
    const options = { interval: '100ms', afterDelay: '500ms' } as const;
    const resurrector = await startResurrector(this.outlast, options);
    onTestFinished(() => resurrector.stop());
  }

  /** A process that is put to sleep at the point, or killed there. */
  start(
    queues: readonly string[],
    point?: FaultPointName,
    extra: Readonly<Record<string, string>> = {},
  ): ChildProcess {
    return this.#spawn([SCRIPT], point, { SLEEPER_QUEUES: queues.join(','), ...extra });
  }

  /** The same for a resurrector, which brings tasks back one by one. */
  startReaper(point: FaultPointName, action: 'kill' | 'stop'): ChildProcess {
    return this.#spawn([PROGRAM, 'resurrector'], point, {
      action,
      OUTLAST_WORKER_LEASE: `${LEASE_MS}ms`,
      OUTLAST_WORKER_BEAT: '300ms',
      OUTLAST_RESURRECTOR_INTERVAL: '100ms',
      OUTLAST_RESURRECTOR_BATCH_SIZE: '1',
    });
  }

  #spawn(
    args: readonly string[],
    point: FaultPointName | undefined,
    { action = 'stop', ...extra }: Readonly<Record<string, string>>,
  ): ChildProcess {
    const { broker, ledger } = this.#servers;
    const child = spawn(process.execPath, args, {
      env: {
        ...process.env,
        OUTLAST_DATABASE_URL: this.database.url,
        ...(broker === undefined ? {} : { OUTLAST_BROKER_URL: broker }),
        ...(ledger === undefined ? {} : { OUTLAST_LEDGER_URL: ledger }),
        ...(point === undefined
          ? {}
          : faultEnv(`${point}:${action}:1:${this.fileOf(point, action)}`)),
        ...extra,
      },
      stdio: ['ignore', 'ignore', process.env['CHAOS_LOG'] === undefined ? 'ignore' : 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    return child;
  }

  isAsleep(point: FaultPointName, action = 'stop'): boolean {
    return existsSync(this.fileOf(point, action));
  }

  fileOf(...parts: readonly string[]): string {
    return join(this.#folder, parts.join('-'));
  }

  async end(child: ChildProcess): Promise<number | string> {
    child.kill('SIGTERM');
    return await this.ended(child);
  }

  async ended(child: ChildProcess): Promise<number | string> {
    if (child.exitCode === null && child.signalCode === null)
      await new Promise<void>(resolve => void child.once('exit', () => resolve()));
    return child.signalCode ?? child.exitCode ?? '';
  }

  async epochsOf(table: 'run' | 'effect', id: string): Promise<number[]> {
    const { rows } = await this.database.pool.query<{ epoch: string }>(
      `select epoch from ${table} where task_id = $1 order by ctid`,
      [id],
    );
    return rows.map(({ epoch }) => Number(epoch));
  }

  async nowMs(): Promise<number> {
    const text = 'select extract(epoch from clock_timestamp()) * 1000 as ms';
    return Number((await this.database.pool.query<{ ms: string }>(text)).rows[0]?.ms);
  }
}
