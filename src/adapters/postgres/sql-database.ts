/** A parameter every driver here passes on unchanged. */
export type SqlParam =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null | Uint8Array)[];
export type SqlRow = Readonly<Record<string, unknown>>;

/** Anything a statement can be run on. */
export interface SqlRunner {
  query(text: string, params?: readonly SqlParam[]): Promise<readonly SqlRow[]>;
}

/**
 * One PostgreSQL as the stores see it: a pg pool, a PGlite handle, or another process's PGlite handle
 * over a loopback socket. `int8` columns come back as text; `bytea` as `Uint8Array`; times are read as
 * milliseconds in SQL. A statement given to `query` never joins a transaction of somebody else.
 */
export interface SqlDatabase extends SqlRunner {
  /** Commits when `fn` returns and rolls back when it throws. */
  transaction<T>(fn: (tx: SqlRunner) => Promise<T>): Promise<T>;
  /** Calls `hint` on every NOTIFY of that channel, and whenever some may have been missed. Returns the undo. */
  listen(channel: string, hint: () => void): () => void;
  close(): Promise<void>;
}
