import type {
  TextRow,
  TransactionAdapter,
  TransactionStatus,
} from '../../outbox/transaction-adapter.ts';
import { handsOutConnections, readServerStatus } from './server-status.ts';

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
 * `beginTransaction()`.
 *
 * @example
 * const outlast = createOutlast({ outbox: 'crm', adapter: fromMariadb(pool) });
 */
export function fromMariadb<Connection extends MariadbConnectionLike>(
  pool: MariadbPoolLike<Connection>,
): TransactionAdapter<Connection> {
  return {
    dialect: 'mysql',
    endsIdleTransactions: true,
    location: 'server',
    execute: async (connection, sql, values) => {
      // However the pool converts rows for the application, we want them plain.
      const plain = { rowsAsArray: false, nestTables: false, typeCast: undefined };
      const rows = await connection.query({ sql, ...plain }, [...values]);
      return Array.isArray(rows) ? (rows as TextRow[]) : [];
    },
    transaction: (fn, leave) => inTransaction(pool, fn, leave),
    status: statusOf,
  };
}

/** Every answer of the server shows whether a transaction is open, and the driver keeps it. */
function statusOf(connection: MariadbConnectionLike): TransactionStatus {
  if (handsOutConnections(connection)) return 'pool';
  const { info } = connection as { readonly info?: { readonly status?: unknown } | null };
  return readServerStatus(info?.status);
}

async function inTransaction<Connection extends MariadbConnectionLike, T>(
  pool: MariadbPoolLike<Connection>,
  fn: (connection: Connection) => Promise<T>,
  leave: (connection: Connection) => Promise<void> = async () => undefined,
): Promise<T> {
  const connection = await pool.getConnection();
  // A connection that could not roll back or be restored must not be handed to the next caller.
  const giveBack = (): Promise<void> =>
    leave(connection).then(
      () => connection.release(),
      () => connection.destroy(),
    );
  let value: T;
  try {
    await connection.beginTransaction();
    value = await fn(connection);
    await connection.commit();
  } catch (error) {
    await connection.rollback().then(giveBack, () => connection.destroy());
    throw error;
  }
  await giveBack();
  return value;
}
