import { outlastError } from '../errors/error.ts';

/** A row as any driver gives it; our statements return texts and null only. */
export type TextRow = Readonly<Record<string, string | null>>;

/**
 * How our statements get into the user's own transaction. One small implementation per library; every parameter is a
 * text or null and is cast in SQL, so that no driver can change a value by guessing its type.
 */
export interface TransactionAdapter<Tx> {
  readonly dialect: 'postgres' | 'mysql';
  /** True where the server can end a transaction that its process has forgotten, and does no harm by it. */
  readonly endsIdleTransactions: boolean;
  execute(tx: Tx, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]>;
  /**
   * The same for a statement that has only one plan, whatever the tables hold, so that the server may keep it. Left out
   * where a library cannot say so.
   */
  executeKept?(
    tx: Tx,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]>;
  /**
   * Commits when `fn` returns and rolls back when it throws. Where settings outlive a transaction, and idle ones are
   * ended, `leave` is called on the same connection after that: one on which it fails is not used again.
   */
  transaction<T>(fn: (tx: Tx) => Promise<T>, leave?: (tx: Tx) => Promise<void>): Promise<T>;
  status(tx: Tx): TransactionStatus;
}

/** `none` and `aborted` are seen, not guessed: whoever cannot tell says `unknown`. */
export type TransactionStatus = 'open' | 'none' | 'aborted' | 'unknown';

/** For adapters whose COMMIT of a failed transaction does not fail by itself. */
export function rolledBack(): Error {
  return outlastError('ERR_NOT_IN_TRANSACTION', {
    message: 'the transaction was rolled back: a statement in it had failed before COMMIT',
    hint: 'Do not swallow errors of statements inside a transaction; use a savepoint where one may fail.',
    fields: {},
  });
}

/** A statement of this transaction failed before: nothing can be sent in it any more. */
export function failedTransaction(cause?: unknown): Error {
  return outlastError('ERR_NOT_IN_TRANSACTION', {
    message: 'this transaction has failed and can only be rolled back',
    hint: 'Roll it back and start over; use a savepoint where a statement may fail.',
    fields: {},
    cause,
  });
}
