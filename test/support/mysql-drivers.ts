import { createPool as createMariadbPool, type PoolConnection as MariadbConnection } from 'mariadb';
import {
  createPool as createMysql2Pool,
  type PoolConnection as Mysql2Connection,
} from 'mysql2/promise';
import { fromMariadb } from '../../src/adapters/transactions/mariadb.ts';
import { fromMysql2 } from '../../src/adapters/transactions/mysql2.ts';
import type { TransactionAdapter } from '../../src/outbox/transaction-adapter.ts';

/** A connection of either library. */
export interface DriverConnection {
  beginTransaction(): Promise<void>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
  release(): void | Promise<void>;
}

/** One of the two libraries, so that every test runs on both. */
export interface Driver {
  readonly adapter: TransactionAdapter<DriverConnection>;
  /** What the library returns for the rows of a statement. */
  run(tx: DriverConnection, sql: string): Promise<unknown>;
  connect(): Promise<DriverConnection>;
  /** The pool itself, which is no transaction. */
  readonly pool: DriverConnection;
  close(): Promise<void>;
}

export const DRIVERS: Readonly<Record<string, (url: string, connectionLimit?: number) => Driver>> =
  {
    mysql2: (url, connectionLimit = 10) => {
      const pool = createMysql2Pool({ uri: url, connectionLimit, rowsAsArray: true });
      return {
        adapter: fromMysql2(pool),
        run: async (tx, sql) => (await (tx as Mysql2Connection).query(sql))[0],
        connect: () => pool.getConnection(),
        pool: pool as unknown as DriverConnection,
        close: () => pool.end(),
      };
    },
    mariadb: (url, connectionLimit = 10) => {
      const { hostname, port, username, pathname } = new URL(url);
      const pool = createMariadbPool({
        host: hostname,
        port: Number(port),
        user: username,
        database: pathname.slice(1),
        connectionLimit,
        rowsAsArray: true,
      });
      return {
        adapter: fromMariadb(pool),
        run: (tx, sql) => (tx as MariadbConnection).query(sql),
        connect: () => pool.getConnection(),
        pool: pool as unknown as DriverConnection,
        close: () => pool.end(),
      };
    },
  };
