import type {
  TextRow,
  TransactionAdapter,
  TransactionStatus,
} from '../../outbox/transaction-adapter.ts';
import { runInside } from '../mysql/run-inside.ts';
import { AnswerLimit, type AnswerOptions } from './answer-limit.ts';
import { handsOutConnections, readServerStatus } from '../mysql/mysql-database.ts';

/** The part of a `mariadb` connection that is used. */
export interface MariadbConnectionLike {
  query(
    options: { sql: string; rowsAsArray?: boolean; nestTables?: boolean },
    values?: unknown[],
  ): Promise<unknown>;
  beginTransaction(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  release(): Promise<void>;
  destroy(): void;
}

/** The part of a `mariadb` pool that is used; `Connection` is inferred from what it hands out. */
export interface MariadbPoolLike<Connection> {
  getConnection(): Promise<Connection>;
}

/**
 * Sends inside transactions of `mariadb`, on MariaDB or MySQL. A `tx` is a connection of the pool after
 * `beginTransaction()`. The server refuses a send outside of a transaction, as with `mysql2`.
 *
 * @example
 * const outlast = createOutlast({ outbox: 'crm', adapter: fromMariadb(pool) });
 */
export function fromMariadb<Connection extends MariadbConnectionLike>(
  pool: MariadbPoolLike<Connection>,
  options: AnswerOptions = {},
): TransactionAdapter<Connection> {
  const limit = new AnswerLimit(options);
  const execute: TransactionAdapter<Connection>['execute'] = async (connection, sql, values) => {
    // However the pool converts rows for the application, we want them plain.
    const plain = { rowsAsArray: false, nestTables: false, typeCast: undefined };
    const rows = await limit.answer(connection.query({ sql, ...plain }, [...values]));
    return Array.isArray(rows) ? (rows as TextRow[]) : [];
  };
  return {
    dialect: 'mysql',
    endsIdleTransactions: true,
    location: 'server',
    execute,
    executeInside: (connection, sql, values) =>
      runInside({
        run: text => limit.answer(connection.query({ sql: text })),
        statement: () => execute(connection, sql, values),
      }),
    transaction: (fn, leave) => inTransaction({ pool, limit }, fn, leave),
    status: statusOf,
    askStatus: connection => limit.answer(askStatus(connection)),
  };
}

/** Every answer of the server shows whether a transaction is open, and the driver keeps that of the last one. */
function statusOf(connection: MariadbConnectionLike): TransactionStatus {
  if (handsOutConnections(connection)) return 'pool';
  return readServerStatus(flagsOf(connection));
}

const flagsOf = (connection: MariadbConnectionLike): unknown =>
  (connection as { readonly info?: { readonly status?: unknown } | null }).info?.status;

/** A ROLLBACK may be on its way, which the driver does not show: this answer comes after its answer. */
async function askStatus(connection: MariadbConnectionLike): Promise<TransactionStatus> {
  await connection.query({ sql: 'do 0' });
  return statusOf(connection);
}

async function inTransaction<Connection extends MariadbConnectionLike, T>(
  { pool, limit }: { readonly pool: MariadbPoolLike<Connection>; readonly limit: AnswerLimit },
  fn: (connection: Connection) => Promise<T>,
  leave: (connection: Connection) => Promise<void> = async () => undefined,
): Promise<T> {
  const connection = await limit.connection(pool.getConnection(), late => late.release());
  // A connection that could not roll back or be restored must not be handed to the next caller. While a statement is under
  // way the driver would connect once more to kill it, and a failure of that ends the process: so it is kept until then.
  const drop = (failure: unknown): void =>
    void limit.settled(failure).then(() => connection.destroy());
  const giveBack = (): Promise<void> => leave(connection).then(() => connection.release(), drop);
  let value: T;
  try {
    await limit.answer(connection.beginTransaction());
    value = await fn(connection);
    await limit.answer(connection.commit());
  } catch (error) {
    if (limit.isLate(error)) drop(error);
    else await limit.answer(connection.rollback()).then(giveBack, drop);
    throw error;
  }
  await giveBack();
  return value;
}
