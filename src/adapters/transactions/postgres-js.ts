import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has } from './library-adapter.ts';

/** The part of a transaction of postgres.js that is used. */
export interface PostgresJsTransactionLike {
  unsafe(text: string, values?: (string | null)[]): PromiseLike<unknown>;
  savepoint(fn: never): Promise<unknown>;
}

/** The part of postgres.js that is used; `Tx` is inferred from what `begin` hands out. */
export interface PostgresJsLike<Tx> {
  begin(options: string, fn: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

/**
 * Sends inside transactions of postgres.js. A `tx` is what `sql.begin` hands out. It does not know whether it is still
 * open, so the server checks it with every send.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPostgresJs(sql) });
 */
export function fromPostgresJs<Tx extends PostgresJsTransactionLike>(
  sql: PostgresJsLike<Tx>,
  options: AnswerOptions = {},
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect: 'postgres',
      run: async (tx, text, values) => await tx.unsafe(text, values),
      begin: async <T>(fn: (tx: Tx) => Promise<T>) => (await sql.begin('', fn)) as T,
      status: tx => {
        if (has(tx, 'begin')) return 'pool';
        return has(tx, 'savepoint') ? 'unknown' : 'none';
      },
    },
    options,
  );
}
