import type { SqlDatabase, SqlRunner } from '../sql/sql-database.ts';

/**
 * One PostgreSQL as the stores see it: a pg pool, a PGlite handle, or another process's PGlite handle
 * over a loopback socket. `int8` columns come back as text; `bytea` as `Uint8Array`; times are read as
 * milliseconds in SQL.
 */
export interface PostgresDatabase extends SqlDatabase {
  /** Calls `hint` on every NOTIFY of that channel, and whenever some may have been missed. Returns the undo. */
  listen(channel: string, hint: () => void): () => void;
  /**
   * One connection for `fn` alone, on which a statement may take as long as it needs. Absent where there is only one
   * connection, which has no other session to wait for.
   */
  withoutLimits?<T>(fn: (session: SqlRunner) => Promise<T>): Promise<T>;
}
