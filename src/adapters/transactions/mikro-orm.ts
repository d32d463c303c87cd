import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has, inPlaces, type LibraryDialect } from './library-adapter.ts';

/** The part of an `EntityManager` of MikroORM that is used. */
export interface MikroOrmManagerLike {
  isInTransaction(): boolean;
  getTransactionContext(): unknown;
  getConnection(): unknown;
  flush(): Promise<void>;
}

interface Forking<Tx> {
  fork(): { transactional<T>(fn: (em: Tx) => Promise<T>): Promise<T> };
}

interface SqlConnection {
  execute(text: string, values: unknown[], method: 'all', context: unknown): Promise<unknown>;
}

/** The part of a `MikroORM` that is used; `Tx` is inferred from its own manager, which is of the same type. */
export interface MikroOrmLike<Tx> {
  readonly em: Tx;
}

/** Options of `fromMikroOrm`. */
export interface FromMikroOrmOptions extends AnswerOptions {
  /** What the driver of the ORM speaks. */
  readonly dialect: LibraryDialect;
}

/**
 * Sends inside transactions of MikroORM 6. A `tx` is the `em` that `transactional` hands out; its types do not distinguish
 * it from any other, a send does. The server checks with every send that it is in a transaction.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromMikroOrm(orm, { dialect: 'postgres' }) });
 */
export function fromMikroOrm<Tx extends MikroOrmManagerLike>(
  orm: MikroOrmLike<Tx>,
  { dialect, ...options }: FromMikroOrmOptions,
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect,
      run: async (tx, text, values) => {
        const places =
          dialect === 'postgres' ? inPlaces(text, values) : { texts: text.split('?'), values };
        const connection = tx.getConnection() as SqlConnection;
        const marked = places.texts.join('?');
        return await connection.execute(marked, [...places.values], 'all', contextOf(tx));
      },
      // A fork: what is collected here is no part of what the application has collected elsewhere.
      begin: fn => (orm.em as unknown as Forking<Tx>).fork().transactional(fn),
      status: tx => {
        if (!tx.isInTransaction()) return 'pool';
        const context = contextOf(tx);
        return has(context, 'isCompleted') && context.isCompleted() ? 'none' : 'unknown';
      },
      flush: tx => tx.flush(),
    },
    options,
  );
}

const contextOf = (tx: MikroOrmManagerLike): { isCompleted(): boolean } =>
  tx.getTransactionContext() as { isCompleted(): boolean };
