import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { createOutlast, startRelay, startResurrector, type Outlast } from '../../dist/index.js';
import type { FaultPointName } from '../../src/runtime/fault-point.ts';
import { migratedDatabase, type MigratedDatabase } from '../support/database.ts';
import { startRedis } from '../support/redis-server.ts';

const SCRIPT = fileURLToPath(new URL('sleeper.mjs', import.meta.url));
/** As in `sleeper.mjs`. */
export const LEASE_MS = 2_000;

/** What a configuration names beside the database. */
export interface Place {
  readonly broker?: string;
  readonly ledger?: string;
}

/** A Redis until the test is over. */
export async function ownRedis(): Promise<string> {
  const redis = await startRedis(['--appendonly', 'yes']);
  onTestFinished(() => redis.dispose());
  return redis.url;
}

/** A database with notes of what ran, relay and recovery here, and worker processes (`sleeper.mjs`) that may be put to sleep. */
export class Dormitory {
  readonly outlast: Outlast;
  readonly database: MigratedDatabase;
  readonly #place: Place;
  readonly #folder = mkdtempSync(join(tmpdir(), 'outlast-sleep-'));

  private constructor(database: MigratedDatabase, place: Place) {
    this.database = database;
    this.#place = place;
    this.outlast = createOutlast({
      database: database.url,
      ...place,
      worker: { lease: `${LEASE_MS}ms`, beat: '300ms' },
    });
  }

  static async open(place: Place): Promise<Dormitory> {
    const database = await migratedDatabase('sleepers');
    for (const table of ['run', 'effect']) {
      await database.pool.query(
        `create table ${table} (task_id text not null, name text not null, epoch bigint not null)`,
      );
    }
    const dormitory = new Dormitory(database, place);
    onTestFinished(async () => {
      await dormitory.outlast.close();
      await database.dispose();
      rmSync(dormitory.#folder, { recursive: true, force: true });
    });
    const services = [
      await startRelay(dormitory.outlast),
      await startResurrector(dormitory.outlast, { interval: '100ms', afterDelay: '500ms' }),
    ];
    onTestFinished(async () => void (await Promise.all(services.map(service => service.stop()))));
    return dormitory;
  }

  /** A process that is put to sleep at the point, or killed there. */
  start(
    queues: readonly string[],
    point?: FaultPointName,
    { action = 'stop', ...extra }: Readonly<Record<string, string>> = {},
  ): ChildProcess {
    const { broker, ledger } = this.#place;
    const child = spawn(process.execPath, [SCRIPT], {
      env: {
        ...process.env,
        SLEEPER_QUEUES: queues.join(','),
        OUTLAST_DATABASE_URL: this.database.url,
        ...(broker === undefined ? {} : { OUTLAST_BROKER_URL: broker }),
        ...(ledger === undefined ? {} : { OUTLAST_LEDGER_URL: ledger }),
        ...(point === undefined
          ? {}
          : { OUTLAST_FAULT_POINT: `${point}:${action}:1:${this.fileOf(point, action)}` }),
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
