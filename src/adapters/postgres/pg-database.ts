import { Socket } from 'node:net';
import type { Client, Pool, PoolClient, PoolConfig } from 'pg';
import { outlastError } from '../../errors/error.ts';
import { rolledBack } from '../../outbox/transaction-adapter.ts';
import { translatePgError } from './pg-errors.ts';
import { PgListener } from './pg-listener.ts';
import { readBytea } from './read-bytea.ts';
import type { PostgresDatabase } from './postgres-database.ts';
import type { SqlParam, SqlRow, SqlRunner } from '../sql/sql-database.ts';
import { createHash } from 'node:crypto';

export interface PgDatabaseOptions {
  readonly url: string;
  /** Most connections of the pool. */
  readonly poolSize: number;
  /** A statement without an answer for this long has failed, and its connection with it. */
  readonly queryTimeoutMs: number;
}

// A statement of ours never takes seconds; one that does is stuck behind a lock or a lost network, and the
// caller should get an error. A stopped process must not hold row locks for ever either.
const LIMITS = {
  statement_timeout: 30_000,
  lock_timeout: 10_000,
  idle_in_transaction_session_timeout: 10_000,
};
/**
 * Under another isolation level our statements would fail when two relays collide. Compiling a plan takes longer than running
 * it. The rest is for the user's own statements, whose values are read here too; ours are read the same under any setting of a
 * database.
 */
const SETTINGS = [
  String.raw`default_transaction_isolation=read\ committed`,
  'jit=off',
  'datestyle=iso',
  'extra_float_digits=1',
  'standard_conforming_strings=on',
  'array_nulls=on',
];
const asOptions = (settings: readonly string[]): string =>
  settings.map(setting => `-c ${setting}`).join(' ');
/** Plans are made for the current tables: one made for an empty outbox reads all of it for every row once there is a backlog. */
const FRESH_PLANS = ['plan_cache_mode=force_custom_plan'];
/**
 * For statements that begin with this mark a session keeps one plan: planning them takes longer than running them. They are
 * written so that under these settings there is one plan only, whatever is in the tables: look-ups by index, and hashes of what
 * was looked up. `kept-plans.test.ts` compares.
 */
const KEPT_MARK = '/* kept plan */';
const KEPT_PLANS = [
  'plan_cache_mode=force_generic_plan',
  ...['seqscan', 'bitmapscan', 'mergejoin', 'nestloop'].map(way => `enable_${way}=off`),
];
/** Of a worker: two batches that are begun, and two that are settled. */
const MOST_KEPT = 4;
const SESSION = { ...LIMITS, options: asOptions([...SETTINGS, ...FRESH_PLANS]) };
const KEPT_SESSION = { ...LIMITS, options: asOptions([...SETTINGS, ...KEPT_PLANS]) };
/** The same for one transaction, if a pooler refuses session settings. One round trip, like a bare `begin`. */
const LIMITED_BEGIN = [
  'begin isolation level read committed',
  ...Object.entries(LIMITS).map(([name, ms]) => `set local ${name} = ${ms}`),
].join('; ');
/** For a session that changes tables: whatever the role or the database has set. */
const NO_LIMITS = Object.keys(LIMITS).map(name => `${name}=0`);
const UNLIMITED_SESSION = { options: asOptions([...SETTINGS, ...FRESH_PLANS, ...NO_LIMITS]) };
const CONNECT_TIMEOUT_MS = 5_000;
/** How long to wait for a server that does not confirm the end of a connection: a stop must come to an end. */
const CLOSE_TIMEOUT_MS = 5_000;

/** Our own, whatever the application did to pg's global parsers: int8 is text, times are dates. */
const TEXT_PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  16: text => text === 't',
  17: readBytes,
  21: Number,
  23: Number,
  1184: text => new Date(text),
};
const TYPES: NonNullable<PoolConfig['types']> = {
  getTypeParser: (oid: number) => TEXT_PARSERS[oid] ?? ((text: string) => text),
};

/** Within the shared pool of `Buffer`: separate memory for every few bytes costs more than reading them. */
function readBytes(text: string): Uint8Array {
  const bytes = readBytea(text);
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

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

/** The name is unknown here, belongs to another statement, or its plan is of an older schema: raised before anything ran. */
const NAME_UNKNOWN: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);

/** A deadlock is over when one side has given way. */
const MAX_STARTS = 10;
const CONFLICTS: ReadonlySet<unknown> = new Set(['40P01', '40001']);

const isConflict = (error: unknown): boolean =>
  CONFLICTS.has((error as { readonly code?: unknown } | null)?.code);

const isSettingRefused = (error: unknown): boolean =>
  (error as { readonly code?: unknown } | null)?.code === '08P01' &&
  (error as Error).message.includes('startup parameter');

/** How connections are made, with settings or, where a pooler refuses them, without. */
interface Makers {
  readonly makePool: (session: Partial<typeof SESSION>, most?: number) => Pool;
  readonly makeClient: (session: Partial<typeof UNLIMITED_SESSION>) => Client;
}

/** A PostgreSQL reached through our own pool of connections. */
export class PgDatabase implements PostgresDatabase {
  readonly #makePool: Makers['makePool'];
  readonly #makeClient: Makers['makeClient'];
  readonly #listener: PgListener;
  /** The open ones, including the listener's. */
  readonly #sockets: ReadonlySet<Socket>;
  #pool: Pool;
  /** For statements whose plan is kept; the same one where sessions have no settings. */
  #keptPool: Pool;
  #hasSession = true;
  #isNaming = true;

  private constructor(
    { makePool, makeClient }: Makers,
    listener: PgListener,
    sockets: ReadonlySet<Socket>,
  ) {
    this.#sockets = sockets;
    this.#makePool = makePool;
    this.#makeClient = makeClient;
    this.#pool = makePool(SESSION);
    this.#keptPool = makePool(KEPT_SESSION, MOST_KEPT);
    this.#listener = listener;
  }

  static async open(options: PgDatabaseOptions): Promise<PgDatabase> {
    const pg = await loadPg();
    const sockets = new Set<Socket>();
    const config = {
      stream: () => openSocket(sockets),
      connectionString: options.url,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      types: TYPES,
      keepAlive: true,
    };
    const makePool: Makers['makePool'] = (session, most = Infinity) => {
      const { poolSize, queryTimeoutMs } = options;
      const max = Math.min(poolSize, most);
      const pool = new pg.Pool({ ...config, ...session, max, query_timeout: queryTimeoutMs });
      // An idle connection that breaks is replaced by the pool; without a listener it would end the process.
      return pool.on('error', () => undefined);
    };
    const makeClient: Makers['makeClient'] = session => new pg.Client({ ...config, ...session });
    const listener = new PgListener(() => {
      const socket = openSocket(sockets);
      const client = new pg.Client({
        ...config,
        stream: () => socket,
        query_timeout: options.queryTimeoutMs,
        application_name: 'outlast-listen',
      });
      return { client, socket };
    }, options.queryTimeoutMs);
    return new PgDatabase({ makePool, makeClient }, listener, sockets);
  }

  get waiting(): number {
    const pools = new Set([this.#pool, this.#keptPool]);
    return [...pools].reduce((sum, { waitingCount }) => sum + waitingCount, 0);
  }

  /** A statement that met a deadlock, or a serialization failure, has done nothing: it is run again. */
  async query(text: string, params: readonly SqlParam[] = []): Promise<readonly SqlRow[]> {
    for (let start = 1; ; start++) {
      try {
        return await this.#queryNamed(text, params);
      } catch (error) {
        if (start >= MAX_STARTS || !isConflict(error)) throw translatePgError(error);
      }
    }
  }

  /**
   * Under a name the server keeps the plan: planning `begin` takes five times as long as running it. A pooler in
   * transaction mode may pass the name to a session that does not know it; such a statement has not run, so it is
   * repeated without a name, and no more names are used.
   */
  async #queryNamed(text: string, params: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    const values = params as unknown[];
    const isKept = text.startsWith(KEPT_MARK);
    if (this.#isNaming && params.length > 0) {
      try {
        const named = { name: statementName(text), text, values };
        return (await this.#onPool(pool => pool.query(named), isKept)).rows as SqlRow[];
      } catch (error) {
        if (!NAME_UNKNOWN.has((error as { readonly code?: unknown } | null)?.code)) throw error;
        this.#isNaming = false;
      }
    }
    return (await this.#onPool(pool => pool.query(text, values), isKept)).rows as SqlRow[];
  }

  /**
   * PgBouncer refuses a connection with settings it does not know; then we connect without them. Nothing has run
   * by then, so it is safe to start over.
   */
  async #onPool<T>(use: (pool: Pool) => Promise<T>, isKept = false): Promise<T> {
    try {
      return await use(isKept ? this.#keptPool : this.#pool);
    } catch (error) {
      if (!isSettingRefused(error)) throw error;
      if (this.#hasSession) {
        this.#hasSession = false;
        // Without that setting a kept plan may be one for tables as they once were.
        this.#isNaming = false;
        const refused = [this.#pool, this.#keptPool];
        this.#pool = this.#keptPool = this.#makePool({});
        await Promise.all(refused.map(pool => pool.end()));
      }
      return await use(this.#pool);
    }
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
      await run(this.#hasSession ? 'begin' : LIMITED_BEGIN);
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

  /** Through a pooler that takes no settings, those of the server hold. */
  async withoutLimits<T>(fn: (session: SqlRunner) => Promise<T>): Promise<T> {
    const client = await this.#connectAlone(this.#hasSession ? UNLIMITED_SESSION : {});
    try {
      return await fn({
        query: async (text, params = []) => {
          try {
            return (await client.query(text, params as unknown[])).rows as SqlRow[];
          } catch (error) {
            throw translatePgError(error);
          }
        },
      });
    } finally {
      await client.end();
    }
  }

  async #connectAlone(session: Partial<typeof UNLIMITED_SESSION>): Promise<Client> {
    const client = this.#makeClient(session);
    // The statement that is under way gets the error, too; without a listener it would end the process.
    client.on('error', () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      if (!isSettingRefused(error) || session.options === undefined) throw translatePgError(error);
      return await this.#connectAlone({});
    }
  }

  async #connect(): Promise<PoolClient> {
    try {
      return await this.#onPool(pool => pool.connect());
    } catch (error) {
      throw translatePgError(error);
    }
  }

  listen(channel: string, hint: () => void): () => void {
    return this.#listener.listen(channel, hint);
  }

  async close(): Promise<void> {
    const giveUp = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
    }, CLOSE_TIMEOUT_MS);
    try {
      const pools = new Set([this.#pool, this.#keptPool]);
      await Promise.all([this.#listener.close(), ...[...pools].map(pool => pool.end())]);
    } finally {
      clearTimeout(giveUp);
    }
  }
}

function openSocket(sockets: Set<Socket>): Socket {
  const socket = new Socket();
  sockets.add(socket);
  return socket.once('close', () => sockets.delete(socket));
}

/**
 * The answer to COMMIT of a transaction in which a statement failed is ROLLBACK, without an error. A caller that swallowed
 * the error of that statement would believe that the effect is there.
 */
async function commit(client: PoolClient): Promise<void> {
  const { command } = await client.query('commit').catch((error: unknown) => {
    throw translatePgError(error);
  });
  if (command === 'ROLLBACK') throw rolledBack();
}

const names = new Map<string, string>();

/** A name under which a session keeps the plan of a statement: the same text has the same name everywhere. */
export function statementName(text: string): string {
  const known = names.get(text);
  if (known !== undefined) return known;
  const name = `outlast_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  names.set(text, name);
  return name;
}
