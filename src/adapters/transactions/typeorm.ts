import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, type LibraryDialect } from './library-adapter.ts';

/** The part of an `EntityManager` that is used. */
export interface TypeOrmManagerLike {
  readonly queryRunner?: TypeOrmRunnerLike | undefined;
}

/** The part of a query runner that is needed. */
export interface TypeOrmRunnerLike {
  readonly isTransactionActive: boolean;
  readonly isReleased: boolean;
  query(text: string, values: unknown[], isStructured: true): Promise<{ records: unknown[] }>;
}

/** The part of a `DataSource` that is used; `Tx` is inferred from its own manager, which is of the same type. */
export interface TypeOrmLike<Tx> {
  readonly options: { readonly type: string };
  readonly manager: Tx;
  transaction(fn: never): Promise<unknown>;
}

/**
 * Sends inside transactions of TypeORM, on PostgreSQL, MySQL or MariaDB. A `tx` is the `EntityManager` that
 * `source.transaction` hands out, or that of a query runner after `startTransaction()`. The types of TypeORM do not
 * distinguish it from any other manager; a send does. The server checks with every send that it is in a transaction.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromTypeOrm(source) });
 */
export function fromTypeOrm<Tx extends TypeOrmManagerLike>(
  source: TypeOrmLike<Tx>,
  options: AnswerOptions = {},
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect: dialectOf(source.options.type),
      run: async (tx, text, values) => (await tx.queryRunner?.query(text, values, true))?.records,
      begin: async <T>(fn: (tx: Tx) => Promise<T>) => (await source.transaction(fn as never)) as T,
      status: ({ queryRunner }) => {
        if (queryRunner === undefined) return 'pool';
        return queryRunner.isTransactionActive && !queryRunner.isReleased ? 'unknown' : 'none';
      },
      driverError: error =>
        (error as { readonly driverError?: unknown } | null)?.driverError ?? error,
    },
    options,
  );
}

const dialectOf = (type: string): LibraryDialect =>
  type === 'mysql' || type === 'mariadb' ? 'mysql' : 'postgres';
