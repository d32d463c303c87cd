import type { TextRow, TransactionAdapter } from '../../outbox/transaction-adapter.ts';

/** As much of a connection of `mysql2/promise` as is used. */
export interface Mysql2ConnectionLike {
  query(options: { sql: string; values?: unknown[] }): Promise<[unknown, ...unknown[]]>;
  beginTransaction(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  release(): void;
  destroy(): void;
}

/** As much of a pool of `mysql2/promise` as is used; `Connection` is found from what it hands out. */
export interface Mysql2PoolLike<Connection> {
  getConnection(): Promise<Connection>;
}

/**
 * Sends inside transactions of `mysql2/promise`, on MySQL or MariaDB. A `tx` is a connection of the pool after
 * `beginTransaction()`. The driver does not know whether it is in a transaction: `outlast.transaction` does.
 *
 * @example
 * const outlast = createOutlast({ outbox: 'crm', adapter: fromMysql2(pool) });
 */
export function fromMysql2<Connection extends Mysql2ConnectionLike>(
  pool: Mysql2PoolLike<Connection>,
): TransactionAdapter<Connection> {
  return {
    dialect: 'mysql',
    endsIdleTransactions: true,
    execute: async (connection, sql, values) => {
      // Whatever the pool makes of rows for the application, we want them plain.
      const plain = { rowsAsArray: false, nestTables: false, typeCast: true };
      const [rows] = await connection.query({ sql, values: [...values], ...plain });
      return Array.isArray(rows) ? (rows as TextRow[]) : [];
    },
    transaction: (fn, leave) => inTransaction(pool, fn, leave),
    // A pool has all that a connection has, and runs each statement on another one.
    status: connection => (isPool(connection) ? 'none' : 'unknown'),
  };
}

const isPool = (given: object): boolean =>
  typeof (given as { readonly getConnection?: unknown }).getConnection === 'function';

async function inTransaction<Connection extends Mysql2ConnectionLike, T>(
  pool: Mysql2PoolLike<Connection>,
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
