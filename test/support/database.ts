import { Pool } from 'pg';
import { migrate } from '../../src/adapters/postgres/migrate.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { withDatabase } from './servers.ts';

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
