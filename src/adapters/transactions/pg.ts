import {
  rolledBack,
  type TextRow,
  type TransactionAdapter,
  type TransactionStatus,
} from '../../outbox/transaction-adapter.ts';
import { KeptPlans } from './kept-plans.ts';

/** As much of a `pg` client as is used. */
export interface PgClientLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
  release(error?: Error | boolean): void;
  on?(event: 'error', listener: (error: Error) => void): unknown;
  off?(event: 'error', listener: (error: Error) => void): unknown;
}

export interface PgPoolLike {
  connect(): Promise<PgClientLike>;
}

/** The pool's own client type: pg's `connect` has a second form with a callback, which inference would pick. */
export type PgClientOf<P> = P extends {
  connect: { (): Promise<infer C>; (callback: (...args: never) => void): void };
}
  ? C
  : P extends { connect(): Promise<infer C> }
    ? C
    : never;

const STATUS: Readonly<Record<string, TransactionStatus>> = { T: 'open', I: 'none', E: 'aborted' };

export interface FromPgOptions {
  /**
   * Lets the server keep the plan of a send, on connections that reach it without a pooler. Switch it off where
   * something else makes sessions forget, such as DISCARD ALL.
   * @default true
   */
  readonly prepare?: boolean;
}

/**
 * Sends inside transactions of `pg`. A `tx` is a client of the pool after BEGIN.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPg(pool) });
 */
export function fromPg<P extends PgPoolLike>(
  pool: P,
  { prepare = true }: FromPgOptions = {},
): TransactionAdapter<PgClientOf<P>> {
  const plans = new KeptPlans(prepare);
  const execute = async (
    client: PgClientLike,
    text: string,
    values: readonly (string | null)[],
  ): Promise<readonly TextRow[]> => (await client.query(text, [...values])).rows as TextRow[];
  const executeKept: typeof execute = (client, text, values) => {
    const isKept = plans.isKeptBy(client);
    if (isKept === true) return plans.query(client, text, values) as Promise<readonly TextRow[]>;
    if (isKept === false) return execute(client, text, values);
    return plans.ask(client).then(() => executeKept(client, text, values));
  };
  const status = (client: PgClientLike): TransactionStatus => {
    const told = (
      client as { getTransactionStatus?: () => string | null }
    ).getTransactionStatus?.();
    return STATUS[told ?? ''] ?? 'unknown';
  };
  const adapter: TransactionAdapter<PgClientLike> = {
    dialect: 'postgres',
    endsIdleTransactions: true,
    execute,
    executeKept,
    status,
    transaction: fn => inTransaction(pool, fn),
  };
  return adapter as unknown as TransactionAdapter<PgClientOf<P>>;
}

async function inTransaction<T>(
  pool: PgPoolLike,
  fn: (client: PgClientLike) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // The server may end the connection between two statements: without a listener that would end the process. The next
  // statement fails, and the pool drops the client.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on?.('error', onError);
  try {
    await client.query('BEGIN');
    const value = await fn(client);
    // Answered with ROLLBACK when a statement failed and its error was swallowed: then nothing is there.
    const { command } = (await client.query('COMMIT')) as { readonly command?: string };
    if (command === 'ROLLBACK') throw rolledBack();
    return value;
  } catch (error) {
    await client.query('ROLLBACK').catch((failure: unknown) => {
      broken = failure as Error;
    });
    throw error;
  } finally {
    client.off?.('error', onError);
    // A connection that broke or could not roll back must not be handed to the next caller.
    client.release(broken);
  }
}
