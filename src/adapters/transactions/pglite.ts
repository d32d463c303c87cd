import type { TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';

/** As much of a PGlite transaction as is used. */
export interface PGliteTransactionLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  rollback(): Promise<void>;
  readonly closed: boolean;
}

export interface PGliteLike {
  transaction(fn: (tx: never) => Promise<unknown>): Promise<unknown>;
}

/** The transaction type of this PGlite. */
export type PGliteTransactionOf<D> = D extends {
  transaction: (fn: (tx: infer Tx) => Promise<unknown>) => unknown;
}
  ? Tx
  : never;

/**
 * Sends inside transactions of PGlite. A `tx` is what `db.transaction` hands out.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPGlite(db) });
 */
export function fromPGlite<D extends PGliteLike>(
  db: D,
): TransactionAdapter<PGliteTransactionOf<D>> {
  const adapter: TransactionAdapter<PGliteTransactionLike> = {
    dialect: 'postgres',
    // PGlite's idle timeout freezes the whole process.
    endsIdleTransactions: false,
    execute: async (tx, text, values) => (await tx.query(text, [...values])).rows as TextRow[],
    transaction: async fn =>
      (await db.transaction(fn as (tx: never) => Promise<unknown>)) as Awaited<ReturnType<typeof fn>>,
    status: tx => {
      if (typeof tx.rollback !== 'function') return 'none';
      return tx.closed ? 'none' : 'open';
    },
  };
  return adapter as unknown as TransactionAdapter<PGliteTransactionOf<D>>;
}
