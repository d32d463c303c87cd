import type { Socket } from 'node:net';
import type { Pool, PoolConnection, ResultSetHeader } from 'mysql2/promise';
import { outlastError } from '../../errors/error.ts';
import type { SqlDatabase } from '../sql/sql-database.ts';
import { isBroken, isDeadlock, isLockWait, translateMysqlError } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';
import { runInside } from './run-inside.ts';
import { type MysqlStatement, bind } from './statement.ts';
import type { TransactionStatus } from '../../outbox/transaction-adapter.ts';

export interface MysqlDatabaseOptions {
  readonly url: string;
  /** Most connections of the pool. */
  readonly poolSize: number;
  /** A statement without an answer for this long has failed, and its connection with it. */
  readonly queryTimeoutMs: number;
}

export type MysqlValue = string | number | bigint | boolean | null | Uint8Array;
export type MysqlParam = MysqlValue | readonly MysqlValue[];
export type MysqlRow = Readonly<Record<string, unknown>>;

/** What our own statements run on: one connection, inside a transaction or not. */
export interface MysqlSession {
  rows(statement: MysqlStatement, params?: readonly MysqlParam[]): Promise<readonly MysqlRow[]>;
  /** Returns how many rows it matched, changed or not. */
  change(statement: MysqlStatement, params?: readonly MysqlParam[]): Promise<number>;
}

/** What a transaction of the user runs on. */
interface TextRunner {
  query(text: string, params?: readonly MysqlParam[]): Promise<readonly MysqlRow[]>;
  queryInside(text: string, params?: readonly MysqlParam[]): Promise<readonly MysqlRow[] | null>;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** How long to wait for a server that does not confirm the end of a connection: a stop must come to an end. */
const CLOSE_TIMEOUT_MS = 5_000;
/** A deadlock is over when one side has given way; a lock wait of ten seconds means that another transaction stays open. */
const MAX_STARTS = { deadlock: 10, lockWait: 2 } as const;

async function loadMysql2(): Promise<typeof import('mysql2/promise')> {
  try {
    return (await import('mysql2/promise')).default;
  } catch (cause) {
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'the driver `mysql2` for MySQL and MariaDB is not installed',
      hint: 'Run: npm i mysql2',
      fields: { install: 'npm i mysql2' },
      cause,
    });
  }
}

/**
 * A MySQL or MariaDB reached through our own pool of connections. Counts and ids come back as text, bytes as Buffers.
 * Our own statements are short: one that meets a deadlock is run again, alone or with its whole transaction.
 */
export class MysqlDatabase implements MysqlSession, SqlDatabase {
  readonly commitsImplicitly = true;
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  readonly #prepared = new WeakSet<object>();
  /** The open ones. */
  readonly #sockets = new Set<Socket>();

  private constructor(pool: Pool, timeoutMs: number) {
    this.#pool = pool;
    this.#timeoutMs = timeoutMs;
  }

  /** Connects, and refuses a server that is too old. */
  static async open(options: MysqlDatabaseOptions): Promise<MysqlDatabase> {
    const mysql = await loadMysql2();
    const pool = mysql.createPool({
      uri: options.url.replace(/^mariadb:/i, 'mysql:'),
      connectionLimit: options.poolSize,
      connectTimeout: CONNECT_TIMEOUT_MS,
      enableKeepAlive: true,
      charset: 'utf8mb4',
      // Our own, whatever the server's time zone is.
      timezone: 'Z',
      supportBigNumbers: true,
      bigNumberStrings: true,
      decimalNumbers: false,
      multipleStatements: false,
    });
    const db = new MysqlDatabase(pool, options.queryTimeoutMs);
    try {
      refuseOldServer(String((await db.rows(SQL.serverVersion))[0]?.['version']));
      return db;
    } catch (error) {
      await db.close();
      throw error;
    }
  }

  async rows(
    statement: MysqlStatement,
    params: readonly MysqlParam[] = [],
  ): Promise<readonly MysqlRow[]> {
    return await startOver(() => this.#connected(session => session.rows(statement, params)));
  }

  async change(statement: MysqlStatement, params: readonly MysqlParam[] = []): Promise<number> {
    return await startOver(() => this.#connected(session => session.change(statement, params)));
  }

  /** A short transaction of ours: all or nothing, and repeated from its beginning after a deadlock. */
  async atomically<T>(fn: (session: MysqlSession) => Promise<T>): Promise<T> {
    return await startOver(() =>
      this.#connected((session, connection) => this.#inTransaction(connection, () => fn(session))),
    );
  }

  /**
   * One connection for `fn` alone, on which a statement may take as long as it needs; its changes to the session, named
   * locks included, end with it.
   */
  async alone<T>(fn: (session: TextRunner) => Promise<T>): Promise<T> {
    return await this.#connected(async (_, connection) => {
      try {
        return await fn(this.#runnerOn(connection, null));
      } finally {
        connection.destroy();
      }
    });
  }

  async query(text: string, params: readonly MysqlParam[] = []): Promise<readonly MysqlRow[]> {
    return await this.#connected((_, connection) => this.#runnerOn(connection).query(text, params));
  }

  /** Commits when `fn` returns and rolls back when it throws; never runs it twice. */
  async transaction<T>(fn: (tx: TextRunner) => Promise<T>): Promise<T> {
    return await this.#connected((_, connection) =>
      this.#inTransaction(connection, () => fn(this.#runnerOn(connection))),
    );
  }

  /** The driver says farewell on each connection after the statement that is under way there, however long that takes. */
  async close(): Promise<void> {
    const giveUp = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy(unanswered(CLOSE_TIMEOUT_MS));
    }, CLOSE_TIMEOUT_MS);
    await within(CLOSE_TIMEOUT_MS, this.#pool.end()).catch(() => undefined);
    // The sockets of a silent server stay open, and keep the process alive until then.
    giveUp.unref();
  }

  async #connected<T>(
    fn: (session: MysqlSession, connection: PoolConnection) => Promise<T>,
  ): Promise<T> {
    const connection = await this.#take();
    let isUsable = true;
    try {
      await this.#prepare(connection);
      return await fn(this.#sessionOn(connection), connection);
    } catch (error) {
      isUsable = !isBroken(error);
      throw translateMysqlError(error, 'theirs');
    } finally {
      // A connection that broke, or still waits for an answer, must not be handed to the next caller.
      if (isUsable) connection.release();
      else drop(connection);
    }
  }

  /** The driver waits for ever: while all connections are in use, and for a server that greets and then says no more. */
  async #take(): Promise<PoolConnection> {
    const taking = this.#pool.getConnection();
    return await within(this.#timeoutMs, taking).catch((error: unknown) => {
      taking.then(
        connection => connection.release(),
        () => undefined,
      );
      throw translateMysqlError(error);
    });
  }

  /** A new connection gets our settings before its first statement. */
  async #prepare(connection: PoolConnection): Promise<void> {
    const { connection: core } = connection;
    if (this.#prepared.has(core)) return;
    // The next statement notices a server that has gone away; without a listener the error would end the process.
    connection.on('error', () => undefined);
    const socket = socketOf(connection);
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    for (const { text } of [SQL.setIsolation, SQL.setSession]) await this.#say(connection, text);
    this.#prepared.add(core);
  }

  #sessionOn(connection: PoolConnection): MysqlSession {
    const run = (statement: MysqlStatement, params: readonly MysqlParam[]): Promise<unknown> => {
      const { text, values } = bind<MysqlValue>(statement, params);
      return this.#run(connection, text, values).catch((error: unknown) => {
        throw translateMysqlError(error);
      });
    };
    return {
      rows: async (statement, params = []) => (await run(statement, params)) as MysqlRow[],
      change: async (statement, params = []) =>
        ((await run(statement, params)) as ResultSetHeader).affectedRows,
    };
  }

  #runnerOn(connection: PoolConnection, limitMs: number | null = this.#timeoutMs): TextRunner {
    const run = (text: string, params: readonly MysqlParam[] = []): Promise<unknown> =>
      this.#run(connection, text, params, limitMs).catch((error: unknown) => {
        throw translateMysqlError(error, 'theirs');
      });
    const query = async (text: string, params?: readonly MysqlParam[]): Promise<MysqlRow[]> => {
      const result = await run(text, params);
      return Array.isArray(result) ? (result as MysqlRow[]) : [];
    };
    return {
      query,
      queryInside: (text, params) =>
        runInside({
          run,
          statement: () => query(text, params),
        }),
    };
  }

  async #run(
    connection: PoolConnection,
    sql: string,
    params: readonly MysqlParam[],
    limitMs: number | null = this.#timeoutMs,
  ): Promise<unknown> {
    const values = params.map(asDriverValue);
    const limit = limitMs === null ? {} : { timeout: limitMs };
    return (await connection.query({ sql, values, ...limit }))[0];
  }

  /** A statement about the session itself. */
  async #say(connection: PoolConnection, sql: string): Promise<void> {
    await within(this.#timeoutMs, connection.query(sql));
  }

  async #inTransaction<T>(connection: PoolConnection, fn: () => Promise<T>): Promise<T> {
    await this.#say(connection, 'start transaction');
    try {
      const value = await fn();
      await this.#say(connection, 'commit');
      return value;
    } catch (error) {
      // Whether it rolled back is unknown then: the server does so when the connection ends. A connection that still waits for
      // an answer would send its ROLLBACK after that.
      if (isBroken(error)) drop(connection);
      else await this.#say(connection, 'rollback').catch(() => drop(connection));
      throw error;
    }
  }
}

/** The driver takes bytes only as Buffers. */
function asDriverValue(param: MysqlParam): MysqlValue | MysqlValue[] {
  if (param instanceof Uint8Array) return Buffer.from(param);
  return Array.isArray(param) ? [...(param as readonly MysqlValue[])] : (param as MysqlValue);
}

const socketOf = ({ connection }: PoolConnection): Socket =>
  (connection as unknown as { readonly stream: Socket }).stream;

/** The driver's own way is to say goodbye first, which a silent server never answers. */
function drop(connection: PoolConnection): void {
  connection.destroy();
  socketOf(connection).destroy();
}

/** The driver counts from when it sends a statement: one queued behind an unanswered one would wait for ever. */
async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unanswered(ms)), ms);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The same error as the driver's. */
const unanswered = (ms: number): Error =>
  Object.assign(new Error(`the server has not answered for ${ms} ms`), {
    code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    fatal: true,
  });

/** Runs a short step again after a deadlock or a lock timeout: nothing of it has happened then. */
async function startOver<T>(run: () => Promise<T>): Promise<T> {
  for (let start = 1; ; start++) {
    try {
      return await run();
    } catch (error) {
      const isOver = isDeadlock(error)
        ? start >= MAX_STARTS.deadlock
        : !isLockWait(error) || start >= MAX_STARTS.lockWait;
      if (isOver) throw error;
    }
  }
}

const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;

/** The flags that MySQL and MariaDB send with every answer: without autocommit a transaction is always open. */
export function readServerStatus(flags: unknown): TransactionStatus {
  if (typeof flags !== 'number') return 'unknown';
  const isOpen = (flags & IN_TRANSACTION) !== 0 || (flags & AUTOCOMMIT) === 0;
  return isOpen ? 'open' : 'none';
}

/** A pool has the methods of a connection, and runs each statement on another one. */
export const handsOutConnections = (given: object): boolean =>
  typeof (given as { readonly getConnection?: unknown }).getConnection === 'function';

/** The first versions with SKIP LOCKED. */
const FIRST = { MariaDB: [10, 6, 0], MySQL: [8, 0, 1] } as const;

/** Refuses a server on which two relays would wait for each other, or take the same rows. */
export function refuseOldServer(version: string): void {
  const kind = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL';
  const found = (/^\d+\.\d+\.\d+/.exec(version)?.[0] ?? '0.0.0').split('.').map(Number);
  const needed = FIRST[kind];
  const differs = needed.findIndex((part, place) => found[place] !== part);
  if (differs === -1 || (found[differs] ?? 0) > (needed[differs] ?? 0)) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `the server is ${kind} ${version}, which has no SKIP LOCKED: relays would wait for each other`,
    hint: `Use ${kind} ${needed.join('.')} or later.`,
    fields: { option: 'database' },
  });
}
