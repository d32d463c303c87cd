import { createPool, type Pool as MysqlPool } from 'mysql2/promise';
import { Pool } from 'pg';
import { migrate as migrateMysql } from '../../src/adapters/mysql/migrate.ts';
import { MysqlDatabase } from '../../src/adapters/mysql/mysql-database.ts';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { withDatabase, withMariadb } from './servers.ts';

export interface MigratedDatabase {
  readonly url: string;
  readonly pool: Pool;
  dispose(): Promise<void>;
}

/** A database of its own for one test file, with Outlast's tables. */
export async function migratedDatabase(name: string): Promise<MigratedDatabase> {
  const database = await withDatabase(name);
  const db = await PgDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
  await migrate(db);
  await db.close();
  const pool = new Pool({ connectionString: database.url, max: 10 });
  // Dropping the database by force ends idle connections; that is no failure of a test.
  pool.on('error', () => undefined);
  return {
    url: database.url,
    pool,
    dispose: async () => {
      await pool.end();
      await database.drop();
    },
  };
}

export interface MigratedMariadb {
  readonly url: string;
  readonly pool: MysqlPool;
  dispose(): Promise<void>;
}

/** The same on MariaDB, with the outbox's tables. */
export async function migratedMariadb(name: string): Promise<MigratedMariadb> {
  const database = await withMariadb(name);
  const db = await MysqlDatabase.open({ url: database.url, poolSize: 1, queryTimeoutMs: 30_000 });
  await migrateMysql(db);
  await db.close();
  const pool = createPool({ uri: database.url, connectionLimit: 10 });
  return {
    url: database.url,
    pool,
    dispose: async () => {
      await pool.end();
      await database.drop();
    },
  };
}

/** Asks again until the answer is there (no rows are no answer); the time limit is the test's own. */
export async function until<T>(ask: () => Promise<T | null | undefined | false | 0>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== null && answer !== undefined && answer !== false && answer !== 0) return answer;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** A promise with its handles outside, for handlers that wait for the test. */
export function gate<T = void>(): { readonly opened: Promise<T>; open(value: T): void } {
  let open!: (value: T) => void;
  const opened = new Promise<T>(resolve => {
    open = resolve;
  });
  return { opened, open };
}
