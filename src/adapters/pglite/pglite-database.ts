import type { PGlite, Transaction } from '@electric-sql/pglite';
import { outlastError } from '../../errors/error.ts';
import { systemClock, type Clock } from '../../runtime/runtime.ts';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import type { SqlParam, SqlRow, SqlRunner } from '../sql/sql-database.ts';
import { runLimited, TRANSACTION_LIMIT_MS } from '../remote/run-limited.ts';
import { storeUnavailable } from '../remote/wire.ts';
import { acquireFolderLock, type FolderLock } from './folder-lock.ts';
import { loadPGlite, type PGliteModule } from './load-pglite.ts';
import { openDataFolder } from './open-data-folder.ts';
import { BYTEA_CODEC, runStatement } from './run-statement.ts';

/** The embedded database of this process. */
export interface PGliteDatabase extends PostgresDatabase {
  /** The handle itself, for the user's own transactions. They are not held to the time limit. */
  readonly pglite: PGlite;
  /** The right to the folder; null for a database in memory. Released by `close`. */
  readonly lock: FolderLock | null;
}

export interface PGliteDatabaseOptions {
  readonly clock?: Clock;
  readonly transactionLimitMs?: number;
  /** Default: true. */
  readonly createIfMissing?: boolean;
}

/**
 * Takes the folder's lock and opens, or creates, the database in its `data` folder; or one in memory.
 */
export async function openPGliteDatabase(
  where: string | { readonly memory: true; readonly meeting?: string },
  options: PGliteDatabaseOptions = {},
): Promise<PGliteDatabase> {
  const driver = await loadPGlite();
  if (typeof where !== 'string') return await openInMemory(driver, where.meeting, options);
  const lock = await acquireFolderLock(where);
  try {
    const pglite = await openDataFolder(driver, where, options.createIfMissing ?? true);
    return new OwnDatabase(pglite, lock, options);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** `meeting`: a folder for nothing but the lock, where others find the address of this process. */
async function openInMemory(
  driver: PGliteModule,
  meeting: string | undefined,
  options: PGliteDatabaseOptions,
): Promise<PGliteDatabase> {
  const lock = meeting === undefined ? null : await acquireFolderLock(meeting);
  try {
    return new OwnDatabase(await driver.PGlite.create(BYTEA_CODEC), lock, options);
  } catch (error) {
    await lock?.release();
    throw error;
  }
}

/**
 * PGlite has one backend, and its mutex gives it to one statement or one transaction at a time: a
 * statement given to `query` waits for the end of an open transaction and never becomes part of it.
 * So a transaction function that awaits `query` of the database instead of its own handle waits for
 * itself; the time limit ends that. No statement may begin or end a transaction by its text.
 */
class OwnDatabase implements PGliteDatabase {
  readonly pglite: PGlite;
  readonly lock: FolderLock | null;
  readonly #clock: Clock;
  readonly #limitMs: number;
  #closed: Promise<void> | undefined;

  constructor(pglite: PGlite, lock: FolderLock | null, options: PGliteDatabaseOptions) {
    this.pglite = pglite;
    this.lock = lock;
    this.#clock = options.clock ?? systemClock;
    this.#limitMs = options.transactionLimitMs ?? TRANSACTION_LIMIT_MS;
  }

  async query(text: string, params?: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    return await this.#guarded(() => runStatement(this.pglite, text, params));
  }

  async transaction<T>(fn: (tx: SqlRunner) => Promise<T>): Promise<T> {
    let ownError: unknown;
    const body = async (tx: Transaction): Promise<T> => {
      const runner: SqlRunner = {
        query: (text, params) => this.#guarded(() => runStatement(tx, text, params)),
      };
      try {
        return await runLimited(runner, fn, { clock: this.#clock, limitMs: this.#limitMs });
      } catch (error) {
        ownError = error;
        throw error;
      }
    };
    try {
      return await this.#guarded(() => this.pglite.transaction(body));
    } catch (error) {
      // The caller gets the error of the function, whatever the rollback failed with.
      throw ownError ?? error;
    }
  }

  /** Hints once when the subscription begins: earlier notifications were missed. */
  listen(channel: string, hint: () => void): () => void {
    // PGlite puts the name into the statement unescaped.
    if (!/^[a-z_][a-z0-9_]{0,62}$/.test(channel)) throw unsafeChannel(channel);
    let isListening = true;
    const hintIfListening = (): void => {
      if (isListening) hint();
    };
    const subscribed = this.pglite.listen(channel, hintIfListening);
    // It fails only when the database is closed, which the caller's own statements will report.
    subscribed.then(hintIfListening).catch(() => undefined);
    return () => {
      if (!isListening) return;
      isListening = false;
      subscribed.then(unlisten => unlisten()).catch(() => undefined);
    };
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    try {
      // Waits for statements under way. Users of the raw handle may have closed it themselves.
      if (!this.pglite.closed) await this.pglite.close();
    } finally {
      await this.lock?.release();
    }
  }

  async #guarded<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined || this.pglite.closed) throw databaseClosed();
    try {
      return await run();
    } catch (error) {
      throw this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    if (isSqlError(error)) return withoutParams(error);
    if (this.pglite.closed) return databaseClosed(error);
    // The WebAssembly machine itself broke, for instance because its memory is full; it does not recover.
    if (error.name === 'RuntimeError' || error.name === 'ExitStatus') return databaseBroken(error);
    return error;
  }
}

/** SQLSTATE: five characters, present on every error of PostgreSQL itself. */
function isSqlError(error: Error): boolean {
  return 'code' in error && typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code);
}

/**
 * PGlite attaches the parameters to its errors; logging one would log payloads and secrets.
 */
function withoutParams(error: Error): Error {
  for (const property of ['params', 'queryOptions']) Reflect.deleteProperty(error, property);
  return error;
}

function databaseClosed(cause?: unknown): Error {
  const hint = 'Open it again, or make no calls after close().';
  return storeUnavailable('The embedded database is closed.', hint, cause);
}

function databaseBroken(cause: unknown): Error {
  const hint = 'Restart this process: what was committed is in the folder.';
  return storeUnavailable('The embedded database has crashed.', hint, cause);
}

function unsafeChannel(channel: string): Error {
  return outlastError('ERR_NAME_UNSAFE', {
    message: `${JSON.stringify(channel)} cannot be the name of a channel.`,
    hint: 'Use up to 63 of a-z, 0-9 and _, beginning with a letter or _.',
    fields: { what: 'channel' },
  });
}
