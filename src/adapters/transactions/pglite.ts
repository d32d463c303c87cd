import type { TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';

/** As much of a PGlite transaction as is used. */
export interface PGliteTransactionLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  rollback(): Promise<void>;
  readonly closed: boolean;
}

/** As much of a PGlite as is used; `Tx` is found from what its `transaction` hands out. */
export interface PGliteLike<Tx> {
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
}

/**
 * Sends inside transactions of PGlite. A `tx` is what `db.transaction` hands out.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPGlite(db) });
 */
export function fromPGlite<Tx extends PGliteTransactionLike>(
  db: PGliteLike<Tx>,
): TransactionAdapter<Tx> {
  return {
    dialect: 'postgres',
    // PGlite's idle timeout freezes the whole process.
    endsIdleTransactions: false,
    execute: async (tx, text, values) => (await tx.query(text, [...values])).rows as TextRow[],
    transaction: fn => db.transaction(fn),
    status: tx => {
      if (typeof tx.rollback !== 'function') return 'none';
      return tx.closed ? 'none' : 'open';
    },
  };
}
