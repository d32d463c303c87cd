import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has, inPlaces, type LibraryDialect } from './library-adapter.ts';

/** The part of a transaction of Knex that is used. */
export interface KnexTransactionLike {
  raw(text: string, values: (string | null)[]): PromiseLike<unknown>;
  isCompleted(): boolean;
}

/** The part of Knex that is used; `Tx` is inferred from what `transaction` hands out. */
export interface KnexLike<Tx> {
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
}

/** Options of `fromKnex`. */
export interface FromKnexOptions extends AnswerOptions {
  /** What the database of Knex speaks. */
  readonly dialect: LibraryDialect;
}

/**
 * Sends inside transactions of Knex on `pg`, `mysql2` or `mysql`. A `tx` is what `knex.transaction` hands out. Knex knows when
 * it has ended one itself; the server checks it with every send.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromKnex(knex, { dialect: 'postgres' }) });
 */
export function fromKnex<Tx extends KnexTransactionLike>(
  knex: KnexLike<Tx>,
  { dialect, ...options }: FromKnexOptions,
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect,
      run: async (tx, text, values) => {
        const places = dialect === 'postgres' ? inPlaces(text, values) : null;
        const answer = await (places === null
          ? tx.raw(text, values)
          : tx.raw(places.texts.map(part => part.replaceAll('?', '\\?')).join('?'), [
              ...places.values,
            ]));
        return dialect === 'mysql'
          ? (answer as readonly unknown[])[0]
          : (answer as { readonly rows?: unknown }).rows;
      },
      begin: fn => knex.transaction(fn),
      status: tx => {
        if (!has(tx, 'isCompleted')) return 'pool';
        return tx.isCompleted() ? 'none' : 'unknown';
      },
    },
    options,
  );
}
