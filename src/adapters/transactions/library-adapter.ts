import {
  rolledBack,
  type TextRow,
  type TransactionAdapter,
  type TransactionStatus,
} from '../../outbox/transaction-adapter.ts';
import { sqlStateOf } from '../postgres/pg-errors.ts';
import { AnswerLimit, type AnswerOptions } from './answer-limit.ts';

/** The database behind a library that speaks to several. */
export type LibraryDialect = 'postgres' | 'mysql';

/** What differs between two libraries that run a function in a transaction of theirs. */
export interface Library<Tx> {
  readonly dialect: LibraryDialect;
  /** Runs one statement of ours, with `$1` (PostgreSQL) or `?` (MySQL), and gives its rows. */
  run(tx: Tx, text: string, values: (string | null)[]): Promise<unknown>;
  /** The library's own transaction: commits when `fn` returns, rolls back when it throws. */
  begin<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  /** What the library knows; `unknown` where only the server can tell whether the transaction is still open. */
  status(tx: Tx): TransactionStatus;
  /** Writes what the library has collected until the commit. */
  flush?(tx: Tx): Promise<unknown>;
  /** The error of the driver inside an error of the library. */
  driverError?(error: unknown): unknown;
}

/** An adapter on a library that begins and ends transactions by itself. */
export function createLibraryAdapter<Tx>(
  library: Library<Tx>,
  options: AnswerOptions,
): TransactionAdapter<Tx> {
  const limit = new AnswerLimit(options);
  const execute = async (
    tx: Tx,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]> => {
    try {
      return plainRows(await limit.answer(Promise.resolve(library.run(tx, text, [...values]))));
    } catch (error) {
      throw library.driverError?.(error) ?? error;
    }
  };
  const isPostgres = library.dialect === 'postgres';
  return {
    dialect: library.dialect,
    endsIdleTransactions: true,
    location: 'server',
    execute,
    status: tx => library.status(tx),
    transaction: (fn, leave) =>
      within(library, limit, async tx => {
        if (!isPostgres) return await endedHere({ library, execute }, tx, fn, leave);
        const value = await fn(tx);
        await library.flush?.(tx);
        await refuseFailed(() => execute(tx, 'select 1 as is_open', []));
        return value;
      }),
  };
}

/** COMMIT of a failed transaction rolls back, and most libraries do not look at the answer. */
async function refuseFailed(ask: () => Promise<unknown>): Promise<void> {
  try {
    await ask();
  } catch (error) {
    throw sqlStateOf(error) === '25P02' ? rolledBack() : error;
  }
}

/**
 * Settings of a MySQL session outlive a transaction and must hold until its end, but a library gives the connection back with
 * its own COMMIT. So the transaction is ended by a statement first, and the library's COMMIT finds nothing to do.
 */
async function endedHere<Tx, T>(
  {
    library,
    execute,
  }: { readonly library: Library<Tx>; readonly execute: TransactionAdapter<Tx>['execute'] },
  tx: Tx,
  fn: (tx: Tx) => Promise<T>,
  leave: ((tx: Tx) => Promise<void>) | undefined,
): Promise<T> {
  if (leave === undefined) return await fn(tx);
  let value: T;
  try {
    value = await fn(tx);
    await library.flush?.(tx);
    await execute(tx, 'commit', []);
  } catch (error) {
    // A session that does not answer is lost with its settings.
    await execute(tx, 'rollback', [])
      .then(() => leave(tx))
      .catch(() => undefined);
    throw error;
  }
  await leave(tx);
  return value;
}

/**
 * Limits how long the library may take to begin and to end. The function itself takes as long as it takes. Behind an answer
 * that never came the library's ROLLBACK would wait for ever, so it is not waited for.
 */
async function within<Tx, T>(
  library: Library<Tx>,
  limit: AnswerLimit,
  fn: (tx: Tx) => Promise<T>,
): Promise<T> {
  const begun = signal();
  const over = signal();
  let refusal: Error | undefined;
  let own: { readonly error: unknown } | undefined;
  const running = library.begin(async tx => {
    begun.fire();
    if (refusal !== undefined) throw refusal;
    try {
      return await fn(tx);
    } catch (error) {
      own = { error };
      throw error;
    } finally {
      over.fire();
    }
  });
  running.catch(() => undefined);
  try {
    await limit.connection(Promise.race([begun.fired, running]), () => undefined);
    await Promise.race([over.fired, running]);
    if (own !== undefined && limit.isLate(own.error)) throw own.error;
    return await limit.answer(running);
  } catch (error) {
    refusal = error as Error;
    if (own !== undefined && own.error === error) throw error;
    throw library.driverError?.(error) ?? error;
  }
}

function signal(): { readonly fired: Promise<void>; fire(): void } {
  let fire!: () => void;
  const fired = new Promise<void>(resolve => {
    fire = resolve;
  });
  return { fired, fire: () => fire() };
}

/** However the library renames columns for the application, ours are in snake case. */
function plainRows(rows: unknown): readonly TextRow[] {
  if (!Array.isArray(rows)) return [];
  return rows.map(row => {
    const entries = Object.entries(row as TextRow);
    return Object.fromEntries(entries.map(([name, value]) => [snakeCase(name), value]));
  });
}

const snakeCase = (name: string): string =>
  name.replaceAll(/(?<=.)[A-Z]/g, letter => `_${letter}`).toLowerCase();

/** A `$1` text with its parameters in the order of their places, for libraries that count by themselves. */
export function inPlaces(
  text: string,
  values: readonly (string | null)[],
): { readonly texts: readonly string[]; readonly values: readonly (string | null)[] } {
  const [head = '', ...rest] = text.split(/\$(\d+)/);
  const texts = [head];
  const placed: (string | null)[] = [];
  for (const [index, part] of rest.entries()) {
    if (index % 2 === 0) placed.push(values[Number(part) - 1] ?? null);
    else texts.push(part);
  }
  return { texts, values: placed };
}

/** A function of that name: how the handles of a library differ from each other. */
export const has = (given: unknown, name: string): boolean =>
  typeof (given as Readonly<Record<string, unknown>> | null)?.[name] === 'function';
