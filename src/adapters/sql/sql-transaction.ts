import type { TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import { mayEndTransaction } from './may-end-transaction.ts';
import type { SqlDatabase, SqlRunner } from './sql-database.ts';

/**
 * A transaction on Outlast's own database, for callers without their own database library. A statement may take 30 s and
 * the transaction may stand idle for 10 s (embedded: 10 s in all); callers that need more use a library. Statements are in
 * the database's own dialect: parameters are `$1` in PostgreSQL and `?` in MySQL and MariaDB.
 */
export interface SqlTransaction {
  query(
    text: string,
    values?: readonly (string | number | boolean | null | Uint8Array)[],
  ): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** Our own connections as one more library. `open` may connect late: a producer that never sends needs no connection. */
export function fromDatabase(
  open: () => Promise<Pick<SqlDatabase, 'transaction' | 'commitsImplicitly'>>,
  dialect = 'postgres',
): TransactionAdapter<SqlTransaction> {
  const opened = new WeakMap<SqlTransaction, Opened>();
  return {
    dialect,
    // Our own sessions have their limits from the start, and PGlite must have none.
    endsIdleTransactions: false,
    execute: async (tx, text, values) =>
      (await (opened.get(tx)?.runner ?? tx).query(text, values)) as readonly TextRow[],
    executeInside: async (tx, text, values) => {
      const runner = opened.get(tx)?.runner;
      if (runner === undefined) return null;
      const running = runner.queryInside?.(text, values) ?? runner.query(text, values);
      return (await running) as readonly TextRow[] | null;
    },
    transaction: async fn => {
      const db = await open();
      return await db.transaction(async (runner: SqlRunner) => {
        const own: Opened = { runner, status: db.commitsImplicitly ? 'unknown' : 'open' };
        const tx: SqlTransaction = {
          query: (text, values) => {
            // A caller that ends the transaction by itself: a task that is sent after that would be committed at once.
            if (mayEndTransaction(text)) own.status = 'unknown';
            return runner.query(text, values);
          },
        };
        opened.set(tx, own);
        try {
          return await fn(tx);
        } finally {
          opened.delete(tx);
        }
      });
    },
    status: tx => opened.get(tx)?.status ?? 'none',
  };
}

interface Opened {
  readonly runner: SqlRunner;
  status: 'open' | 'unknown';
}
