import type {
  TextRow,
  TransactionAdapter,
  TransactionStatus,
} from '../../outbox/transaction-adapter.ts';

/** As much of a connection of `mariadb` as is used. */
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

/** As much of a pool of `mariadb` as is used; `Connection` is found from what it hands out. */
export interface MariadbPoolLike<Connection> {
  getConnection(): Promise<Connection>;
}

const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;

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
    execute: async (connection, sql, values) => {
      // Whatever the pool makes of rows for the application, we want them plain.
      const plain = { rowsAsArray: false, nestTables: false, typeCast: undefined };
      const rows = await connection.query({ sql, ...plain }, [...values]);
      return Array.isArray(rows) ? (rows as TextRow[]) : [];
    },
    transaction: (fn, leave) => inTransaction(pool, fn, leave),
    status: statusOf,
  };
}

/** The server says with every answer whether a transaction is open, and the driver keeps it; without autocommit one always is. */
function statusOf(connection: MariadbConnectionLike): TransactionStatus {
  const { info, getConnection } = connection as {
    readonly info?: { readonly status?: unknown } | null;
    readonly getConnection?: unknown;
  };
  // A pool runs each statement on another connection.
  if (typeof getConnection === 'function') return 'none';
  const flags = info?.status;
  if (typeof flags !== 'number') return 'unknown';
  const isOpen = (flags & IN_TRANSACTION) !== 0 || (flags & AUTOCOMMIT) === 0;
  return isOpen ? 'open' : 'none';
}

async function inTransaction<Connection extends MariadbConnectionLike, T>(
  pool: MariadbPoolLike<Connection>,
  fn: (connection: Connection) => Promise<T>,
  leave: (connection: Connection) => Promise<void> = async () => undefined,
): Promise<T> {
  const connection = await pool.getConnection();
  // A connection that could not roll back or be left must not be handed to the next caller.
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
