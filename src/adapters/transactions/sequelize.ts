import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has, type LibraryDialect } from './library-adapter.ts';

/** The part of a transaction of Sequelize that is used. */
export interface SequelizeTransactionLike {
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** Further fields of a transaction, which its types do not name. */
interface SequelizeInternals {
  readonly id?: unknown;
  readonly finished?: unknown;
  readonly connection?: { readonly uuid?: unknown };
}

/** The part of Sequelize that is used; `Tx` is inferred from what `transaction` hands out. */
export interface SequelizeLike<Tx> {
  getDialect(): string;
  query(text: string, options: never): Promise<unknown>;
  /** It also takes a function; inference sees only its last form. */
  transaction(): Promise<Tx>;
}

/**
 * Sends inside transactions of Sequelize 6, on PostgreSQL, MySQL or MariaDB. A `tx` is the `Transaction` that
 * `sequelize.transaction` hands out. The server checks with every send that it is in a transaction. Our statements are not logged.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromSequelize(sequelize) });
 */
export function fromSequelize<Tx extends SequelizeTransactionLike>(
  sequelize: SequelizeLike<Tx>,
  options: AnswerOptions = {},
): TransactionAdapter<Tx> {
  const dialect: LibraryDialect = sequelize.getDialect() === 'postgres' ? 'postgres' : 'mysql';
  return createLibraryAdapter<Tx>(
    {
      dialect,
      run: async (tx, text, values) => {
        const given = dialect === 'postgres' ? { bind: values } : { replacements: values };
        const one = { ...(values.length === 0 ? {} : given), transaction: tx, logging: false };
        return ((await sequelize.query(text, one as never)) as readonly unknown[])[0];
      },
      begin: fn => (sequelize as unknown as Managed<Tx>).transaction(fn),
      status: tx => statusOf(tx),
      driverError: error => (error as { readonly parent?: unknown } | null)?.parent ?? error,
    },
    options,
  );
}

interface Managed<Tx> {
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
}

/** A connection bears the id of the transaction that has it. */
function statusOf(tx: object): 'pool' | 'none' | 'unknown' {
  if (has(tx, 'getQueryInterface') || !has(tx, 'commit')) return 'pool';
  const { id, finished, connection } = tx as SequelizeInternals;
  return finished === undefined && connection?.uuid === id ? 'unknown' : 'none';
}
