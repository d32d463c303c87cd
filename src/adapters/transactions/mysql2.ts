import type {
  TextRow,
  TransactionAdapter,
  TransactionStatus,
} from '../../outbox/transaction-adapter.ts';
import { runInside } from '../mysql/run-inside.ts';
import { AnswerLimit, type AnswerOptions } from './answer-limit.ts';
import { handsOutConnections, readServerStatus } from '../mysql/mysql-database.ts';

/** The part of a `mysql2/promise` connection that is used. */
export interface Mysql2ConnectionLike {
  query(options: { sql: string; values?: unknown[] }): Promise<[unknown, ...unknown[]]>;
  beginTransaction(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  release(): void;
  destroy(): void;
}

/** The part of a `mysql2/promise` pool that is used; `Connection` is inferred from what it hands out. */
export interface Mysql2PoolLike<Connection> {
  getConnection(): Promise<Connection>;
}

/**
 * Sends inside transactions of `mysql2/promise`, on MySQL or MariaDB. A `tx` is a connection of the pool after
 * `beginTransaction()`. The driver does not know whether it is in a transaction, and a statement such as CREATE TABLE may have
 * committed what `beginTransaction()` began: so a send is written such that the server refuses it outside of one.
 *
 * @example
 * const outlast = createOutlast({ outbox: 'crm', adapter: fromMysql2(pool) });
 */
export function fromMysql2<Connection extends Mysql2ConnectionLike>(
  pool: Mysql2PoolLike<Connection>,
  options: AnswerOptions = {},
): TransactionAdapter<Connection> {
  const limit = new AnswerLimit(options);
  const execute: TransactionAdapter<Connection>['execute'] = async (connection, sql, values) => {
    // However the pool converts rows for the application, we want them plain.
    const plain = { rowsAsArray: false, nestTables: false, typeCast: true };
    const answering = connection.query({ sql, values: [...values], ...plain });
    const [rows] = await limit.answer(answering);
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
    status: connection => (handsOutConnections(connection) ? 'pool' : 'unknown'),
    askStatus: connection => limit.answer(askStatus(connection)),
  };
}

/** The answer to a statement without rows carries the server's flags, which the driver passes on. */
async function askStatus(connection: Mysql2ConnectionLike): Promise<TransactionStatus> {
  return readServerStatus(flagsOf(await connection.query({ sql: 'do 0' })));
}

const flagsOf = (answer: unknown): unknown =>
  (answer as readonly [{ readonly serverStatus?: unknown } | null])[0]?.serverStatus;

async function inTransaction<Connection extends Mysql2ConnectionLike, T>(
  { pool, limit }: { readonly pool: Mysql2PoolLike<Connection>; readonly limit: AnswerLimit },
  fn: (connection: Connection) => Promise<T>,
  leave: (connection: Connection) => Promise<void> = async () => undefined,
): Promise<T> {
  const connection = await limit.connection(pool.getConnection(), late => late.release());
  // A connection that could not roll back or be restored must not be handed to the next caller.
  const giveBack = (): Promise<void> =>
    leave(connection).then(
      () => connection.release(),
      () => connection.destroy(),
    );
  let value: T;
  try {
    await limit.answer(connection.beginTransaction());
    value = await fn(connection);
    await limit.answer(connection.commit());
  } catch (error) {
    if (limit.isLate(error)) connection.destroy();
    else await limit.answer(connection.rollback()).then(giveBack, () => connection.destroy());
    throw error;
  }
  await giveBack();
  return value;
}
