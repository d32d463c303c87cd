import { outlastError } from '../errors/error.ts';

/** A row from any driver; our statements return only texts and null. */
export type TextRow = Readonly<Record<string, string | null>>;

/**
 * Runs our statements in the user's own transaction. One small implementation per library; every parameter is a text or
 * null and is cast in SQL, so that no driver can change a value by guessing its type.
 */
export interface TransactionAdapter<Tx> {
  /** What its statements are written in: `postgres`, `mysql`, or the name of another dialect. */
  readonly dialect: string;
  /** True where the server can end a transaction that its process has forgotten, and does no harm by it. */
  readonly endsIdleTransactions: boolean;
  /** The location of its database: a server, or the folder of a PGlite (null: in memory). Left out if unknown. */
  readonly location?: 'server' | { readonly folder: string | null };
  execute(tx: Tx, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]>;
  /**
   * The same for a statement with only one plan, whatever the tables hold, so that the server may cache it. Left out if
   * a library cannot request that.
   */
  executeKept?(
    tx: Tx,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]>;
  /**
   * Runs a statement that writes so that the server refuses it outside of a transaction, whatever the caller runs meanwhile;
   * null if it was refused. For a library that does not show whether the end of the transaction is on its way.
   */
  executeInside?(
    tx: Tx,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[] | null>;
  /**
   * Commits when `fn` returns and rolls back when it throws. If settings outlive a transaction, and idle ones are ended,
   * `leave` is called on the same connection after that: a connection on which it fails is not used again.
   */
  transaction<T>(fn: (tx: Tx) => Promise<T>, leave?: (tx: Tx) => Promise<void>): Promise<T>;
  /** What the library knows by itself. For `unknown` a `send` has the server check it, which costs round trips. */
  status(tx: Tx): TransactionStatus;
  /**
   * Asks the server in a way of the library that is shorter than our own two statements. The `open` of a library that has
   * it is what was true at its last answer, and proves nothing.
   */
  askStatus?(tx: Tx): Promise<TransactionStatus>;
}

/** What a writer of tasks needs of an adapter. */
export interface Executor<Tx> extends Pick<
  TransactionAdapter<Tx>,
  'execute' | 'executeKept' | 'executeInside'
> {
  /**
   * False where the end of the transaction may be on its way without the library showing it. Then what is written must
   * depend on something that ends with the transaction, in the statement that writes.
   */
  isCertain(tx: Tx): boolean;
  /** For `strict: false`: what is written may be committed by itself, so nothing is proven. */
  readonly isLenient?: boolean;
}

/** The result of comparing two databases. `isSame` is null if neither answer proves anything. */
export interface Comparison {
  readonly isSame: boolean | null;
  /** The name of the database that tasks are written to. */
  readonly name: string;
}

/**
 * `open`, `none` and `aborted` are observed, not guessed: an adapter that cannot know returns `unknown`. `pool` is not a
 * transaction and can never be one: each statement may run on another connection.
 */
export type TransactionStatus = 'open' | 'none' | 'aborted' | 'pool' | 'unknown';

/** The error of a `send` on a handle that would commit it on its own. */
export function notInTransaction(status: 'none' | 'pool'): Error {
  return outlastError('ERR_NOT_IN_TRANSACTION', {
    message:
      status === 'pool'
        ? 'this is a pool, which gives each statement to any of its connections, and no transaction'
        : 'this handle is not in a transaction',
    hint:
      status === 'pool'
        ? 'Take a connection from it and begin a transaction there, or use outlast.transaction(async tx => …).'
        : 'Run BEGIN on it first, or use outlast.transaction(async tx => …); set strict: false to be warned instead.',
    fields: {},
  });
}

/** For adapters whose COMMIT of a failed transaction does not fail by itself. */
export function rolledBack(): Error {
  return outlastError('ERR_NOT_IN_TRANSACTION', {
    message: 'the transaction was rolled back: a statement in it had failed before COMMIT',
    hint: 'Do not swallow errors of statements inside a transaction; use a savepoint where one may fail.',
    fields: {},
  });
}

/** An earlier statement of this transaction failed: nothing can be sent in it any more. */
export function failedTransaction(cause?: unknown): Error {
  return outlastError('ERR_NOT_IN_TRANSACTION', {
    message: 'this transaction has failed and can only be rolled back',
    hint: 'Roll it back and start over; use a savepoint where a statement may fail.',
    fields: {},
    cause,
  });
}
