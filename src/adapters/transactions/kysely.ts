import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import { notInTransaction } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, type LibraryDialect } from './library-adapter.ts';

/** The part of a transaction of Kysely that is used. */
export interface KyselyTransactionLike {
  readonly isTransaction: true;
  getExecutor(): {
    withoutPlugins(): {
      executeQuery(query: never): Promise<{ readonly rows: unknown[] }>;
    };
  };
}

/** The part of Kysely that is used; `Tx` is inferred from what its transactions hand out. */
export interface KyselyLike<Tx> {
  transaction(): { execute<T>(fn: (tx: Tx) => Promise<T>): Promise<T> };
}

/** Options of `fromKysely`. */
export interface FromKyselyOptions extends AnswerOptions {
  /** What Kysely's own dialect speaks. */
  readonly dialect: LibraryDialect;
}

/**
 * Sends inside transactions of Kysely. A `tx` is what `db.transaction().execute` hands out, or a controlled transaction.
 * Plugins such as `CamelCasePlugin` do not touch our statements. The server checks with every send that it is in a transaction.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromKysely(db, { dialect: 'postgres' }) });
 */
export function fromKysely<Tx extends KyselyTransactionLike>(
  db: KyselyLike<Tx>,
  { dialect, ...options }: FromKyselyOptions,
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect,
      run: async (tx, text, values) => {
        const query = {
          sql: text,
          parameters: values,
          query: RAW,
          queryId: { queryId: 'outlast' },
        };
        return (
          await tx
            .getExecutor()
            .withoutPlugins()
            .executeQuery(query as never)
        ).rows;
      },
      begin: fn => db.transaction().execute(fn),
      status: tx => statusOf(tx),
      driverError: error => (isEnded(error) ? notInTransaction('none') : error),
    },
    options,
  );
}

const RAW = { kind: 'RawNode', sqlFragments: [], parameters: [] };

function statusOf(tx: object): 'pool' | 'none' | 'unknown' {
  const { isTransaction, isCommitted, isRolledBack } = tx as {
    readonly [name: string]: unknown;
  };
  if (isTransaction !== true) return 'pool';
  return isCommitted === true || isRolledBack === true ? 'none' : 'unknown';
}

/** Kysely does not show that a transaction is over; it refuses the statement, with an error that has no code. */
const isEnded = (error: unknown): boolean =>
  error instanceof Error && /^Transaction is already (committed|rolled back)/.test(error.message);
