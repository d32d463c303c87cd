import type {
  TextRow,
  TransactionAdapter,
  TransactionStatus,
} from '../../outbox/transaction-adapter.ts';

/** The part of a PGlite transaction that is used. */
export interface PGliteTransactionLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  rollback(): Promise<void>;
  readonly closed: boolean;
}

/** The part of a PGlite handle that is used; `Tx` is inferred from what its `transaction` hands out. */
export interface PGliteLike<Tx> {
  readonly dataDir?: string;
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
    location: { folder: folderOf(db.dataDir) },
    execute: async (tx, text, values) => (await tx.query(text, [...values])).rows as TextRow[],
    transaction: fn => db.transaction(fn),
    status: tx => {
      // The database itself: any other statement of the process could run in between.
      if (typeof (tx as { readonly transaction?: unknown }).transaction === 'function')
        return 'pool';
      if (typeof tx.rollback !== 'function') return 'none';
      return tx.closed ? 'none' : 'open';
    },
    askStatus,
  };
}

const REFUSALS: Readonly<Record<string, TransactionStatus>> = {
  '25P01': 'none',
  '25P02': 'aborted',
};

/** PGlite does not notice a COMMIT or ROLLBACK that was run as a statement. A savepoint needs a transaction. */
async function askStatus(tx: PGliteTransactionLike): Promise<TransactionStatus> {
  try {
    await tx.query('savepoint outlast_transaction');
    await tx.query('release savepoint outlast_transaction');
    return 'open';
  } catch (error) {
    const status = REFUSALS[(error as { readonly code?: string }).code ?? ''];
    if (status === undefined) throw error;
    return status;
  }
}

/** In memory if no folder is named. */
function folderOf(dataDir: string | undefined): string | null {
  if (dataDir === undefined || dataDir.startsWith('memory://')) return null;
  return dataDir.replace(/^file:\/\//, '');
}
