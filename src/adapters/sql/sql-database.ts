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
  /** Null if no transaction was open. Only where a statement may end one without being seen (`commitsImplicitly`). */
  queryInside?(text: string, params?: readonly SqlParam[]): Promise<readonly SqlRow[] | null>;
}

/** Our own connections to a database of any dialect. A statement given to `query` never joins a transaction of another caller. */
export interface SqlDatabase extends SqlRunner {
  /** A statement such as CREATE TABLE ends the transaction it is run in, and what comes after it is committed by itself. */
  readonly commitsImplicitly?: true;
  /** How many wait for a connection of the pool. Left out: it has none. */
  readonly waiting?: number;
  /** Commits when `fn` returns and rolls back when it throws. */
  transaction<T>(fn: (tx: SqlRunner) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}
