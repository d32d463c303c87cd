import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has, inPlaces, type LibraryDialect } from './library-adapter.ts';

/** The part of a transaction of Drizzle that is used. */
export interface DrizzleTransactionLike {
  execute(query: never): PromiseLike<unknown>;
  rollback(): never;
}

/** The part of Drizzle that is used; `Tx` is inferred from what `transaction` hands out. */
export interface DrizzleLike<Tx> {
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
}

/** Drizzle's own `sql`. */
export interface DrizzleSqlLike {
  raw(text: string): unknown;
  param(value: unknown): unknown;
  join(parts: never[]): unknown;
}

/** Options of `fromDrizzle`. */
export interface FromDrizzleOptions extends AnswerOptions {
  /** What the database of `db` speaks. */
  readonly dialect: LibraryDialect;
  /** `sql` of `drizzle-orm`. */
  readonly sql: DrizzleSqlLike;
}

/**
 * Sends inside transactions of Drizzle on `pg`, postgres.js or `mysql2`. A `tx` is what `db.transaction` hands out. It does
 * not know whether it is still open, so the server checks it with every send.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromDrizzle(db, { dialect: 'postgres', sql }) });
 */
export function fromDrizzle<Tx extends DrizzleTransactionLike>(
  db: DrizzleLike<Tx>,
  { dialect, sql, ...options }: FromDrizzleOptions,
): TransactionAdapter<Tx> {
  return createLibraryAdapter<Tx>(
    {
      dialect,
      run: async (tx, text, values) => {
        const given = dialect === 'postgres' ? inPlaces(text, values) : split(text, values);
        const parts = given.texts.flatMap((part, index) =>
          index === 0 ? [sql.raw(part)] : [sql.param(given.values[index - 1]), sql.raw(part)],
        );
        return rowsOf(await tx.execute(sql.join(parts as never[]) as never), dialect);
      },
      begin: fn => db.transaction(fn),
      status: tx => (has(tx, 'rollback') ? 'unknown' : 'pool'),
      driverError: error => (error as { readonly cause?: unknown } | null)?.cause ?? error,
    },
    options,
  );
}

const split = (text: string, values: readonly (string | null)[]) => ({
  texts: text.split('?'),
  values,
});

/** `pg` gives an object with rows, postgres.js the rows, `mysql2` the rows and their columns. */
function rowsOf(answer: unknown, dialect: LibraryDialect): unknown {
  if (dialect === 'mysql') return (answer as readonly unknown[])[0];
  return Array.isArray(answer) ? answer : (answer as { readonly rows?: unknown }).rows;
}
