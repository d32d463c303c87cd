import { createHash } from 'node:crypto';
import type { Client, Pool, PoolClient, PoolConfig } from 'pg';
import { outlastError } from '../../errors/error.ts';
import { rolledBack } from '../../outbox/transaction-adapter.ts';
import { translatePgError } from './pg-errors.ts';
import { PgListener } from './pg-listener.ts';
import type { SqlDatabase, SqlParam, SqlRow, SqlRunner } from './sql-database.ts';

export interface PgDatabaseOptions {
  readonly url: string;
  /** Most connections of the pool. */
  readonly poolSize: number;
  /** A statement without an answer for this long has failed, and its connection with it. */
  readonly queryTimeoutMs: number;
}

// A statement of ours never takes seconds; one that does is stuck behind a lock or a lost network, and the
// caller had better hear of it. A stopped process must not hold row locks for ever either.
const SESSION = {
  statement_timeout: 30_000,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 10_000,
};
const CONNECT_TIMEOUT_MS = 5_000;

/** Ours whatever the application did to pg's global parsers: int8 is text, times are dates. */
const TEXT_PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  16: text => text === 't',
  17: text => new Uint8Array(Buffer.from(text.slice(2), 'hex')),
  21: Number,
  23: Number,
  1184: text => new Date(text),
};
const TYPES: NonNullable<PoolConfig['types']> = {
  getTypeParser: (oid: number) => TEXT_PARSERS[oid] ?? ((text: string) => text),
};

async function loadPg(): Promise<typeof import('pg')> {
  try {
    return (await import('pg')).default as unknown as typeof import('pg');
  } catch (cause) {
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'the PostgreSQL driver `pg` is not installed',
      hint: 'Run: npm i pg',
      fields: { install: 'npm i pg' },
      cause,
    });
  }
}

/** No such name here, another statement has it, or its plan is of an older schema: raised before anything ran. */
const NAME_UNKNOWN: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);

/** A PostgreSQL reached through our own pool of connections. */
export class PgDatabase implements SqlDatabase {
  readonly #pool: Pool;
  readonly #listener: PgListener;
  readonly #names = new Map<string, string>();
  #isNaming = true;

  private constructor(pool: Pool, listener: PgListener) {
    this.#pool = pool;
    this.#listener = listener;
  }

  static async open(options: PgDatabaseOptions): Promise<PgDatabase> {
    const pg = await loadPg();
    const config = {
      connectionString: options.url,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      types: TYPES,
      keepAlive: true,
    };
    const pool = new pg.Pool({
      ...config,
      ...SESSION,
      max: options.poolSize,
      query_timeout: options.queryTimeoutMs,
    });
    // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
    pool.on('error', () => undefined);
    const makeClient = (): Client =>
      new pg.Client({ ...config, application_name: 'outlast-listen' });
    return new PgDatabase(pool, new PgListener(makeClient));
  }

  async query(text: string, params: readonly SqlParam[] = []): Promise<readonly SqlRow[]> {
    try {
      return await this.#queryNamed(text, params);
    } catch (error) {
      throw translatePgError(error);
    }
  }

  /**
   * Under a name the server keeps the plan: planning `begin` takes five times as long as running it. A pooler in
   * transaction mode may hand the name to a session that does not know it; such a statement has not run, so it is
   * repeated without, and names are given up.
   */
  async #queryNamed(text: string, params: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    const values = params as unknown[];
    if (this.#isNaming && params.length > 0) {
      try {
        const named = { name: this.#nameOf(text), text, values };
        return (await this.#pool.query(named)).rows as SqlRow[];
      } catch (error) {
        if (!NAME_UNKNOWN.has((error as { readonly code?: unknown } | null)?.code)) throw error;
        this.#isNaming = false;
      }
    }
    return (await this.#pool.query(text, values)).rows as SqlRow[];
  }

  #nameOf(text: string): string {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    const name = `outlast_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    this.#names.set(text, name);
    return name;
  }

  async transaction<T>(fn: (tx: SqlRunner) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    const run = async (
      text: string,
      params: readonly SqlParam[] = [],
    ): Promise<readonly SqlRow[]> => {
      try {
        return (await client.query(text, params as unknown[])).rows as SqlRow[];
      } catch (error) {
        throw translatePgError(error);
      }
    };
    let broken: Error | undefined;
    // The server may end the connection between two statements: without a listener that would end the process.
    const onError = (error: Error): void => {
      broken = error;
    };
    client.on('error', onError);
    try {
      await run('begin');
      const value = await fn({ query: run });
      await commit(client);
      return value;
    } catch (error) {
      await run('rollback').catch((failure: unknown) => {
        broken = failure as Error;
      });
      throw error;
    } finally {
      client.off('error', onError);
      // A connection that broke or could not roll back must not be handed to the next caller.
      client.release(broken);
    }
  }

  async #connect(): Promise<PoolClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw translatePgError(error);
    }
  }

  listen(channel: string, hint: () => void): () => void {
    return this.#listener.listen(channel, hint);
  }

  async close(): Promise<void> {
    await this.#listener.close();
    await this.#pool.end();
  }
}

/**
 * COMMIT of a transaction in which a statement failed is answered politely with ROLLBACK. Whoever swallowed that
 * statement's error would believe that the effect is there.
 */
async function commit(client: PoolClient): Promise<void> {
  const { command } = await client.query('commit').catch((error: unknown) => {
    throw translatePgError(error);
  });
  if (command === 'ROLLBACK') throw rolledBack();
}
