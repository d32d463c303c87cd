import type { Clock } from '../../runtime/runtime.ts';
import type { SqlRunner } from '../sql/sql-database.ts';
import { storeUnavailable } from './wire.ts';

/**
 * PGlite has one backend: an open transaction blocks all other callers, so none may last longer. The
 * time is measured here because PGlite's own timeouts freeze the whole process.
 */
export const TRANSACTION_LIMIT_MS = 10_000;

export interface TransactionLimit {
  readonly clock: Clock;
  readonly limitMs: number;
}

/**
 * Runs the body of a transaction. Rejects when the limit is reached, whatever the body waits for;
 * from then on, and after its end, the runner given to the body refuses every statement.
 */
export function runLimited<T>(
  tx: SqlRunner,
  fn: (tx: SqlRunner) => Promise<T>,
  { clock, limitMs }: TransactionLimit,
): Promise<T> {
  let isOver = false;
  const runner: SqlRunner = {
    query: async (text, params) => {
      if (isOver) throw transactionOver();
      return await tx.query(text, params);
    },
  };
  return new Promise<T>((resolve, reject) => {
    const cancel = clock.timer(limitMs, () => {
      isOver = true;
      reject(transactionTooLong(limitMs));
    });
    const body = async (): Promise<T> => await fn(runner);
    void body()
      .then(resolve, reject)
      .finally(() => {
        isOver = true;
        cancel();
      });
  });
}

function transactionTooLong(limitMs: number): Error {
  return storeUnavailable(
    `A transaction was open for more than ${limitMs} ms and was rolled back.`,
    'Do nothing slow inside a transaction, and use only the handle given to it: a statement on ' +
      'the database itself waits for the end of the transaction.',
  );
}

export function transactionOver(): Error {
  return storeUnavailable(
    'The transaction of this statement is over.',
    'Await every statement before the transaction function returns.',
  );
}
