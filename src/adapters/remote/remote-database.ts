import { type Clock, systemClock } from '../../runtime/runtime.ts';
import type { PostgresDatabase } from '../postgres/postgres-database.ts';
import type { SqlParam, SqlRow, SqlRunner } from '../sql/sql-database.ts';
import { type Endpoint, storeUnavailable } from './wire.ts';
import { RemoteConnection } from './remote-connection.ts';
import { TRANSACTION_LIMIT_MS, runLimited } from './run-limited.ts';

/**
 * A function is called before every connection: a holder that restarts has another port and token.
 */
export type EndpointSource = Endpoint | (() => Promise<Endpoint>);

export interface RemoteOptions {
  readonly clock?: Clock;
  readonly transactionLimitMs?: number;
}

/**
 * The database of another process of this machine. Connects at the first call, and again at the
 * first call after a loss. No call is tried twice: calls under way when the connection broke are
 * rejected with `ERR_STORE_UNAVAILABLE`, their outcome unknown, and while there is no server every
 * call is rejected at once.
 */
export function openRemoteDatabase(
  source: EndpointSource,
  options: RemoteOptions = {},
): PostgresDatabase {
  return new RemoteDatabase(source, options);
}

class RemoteDatabase implements PostgresDatabase {
  readonly #source: EndpointSource;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #listeners = new Map<string, Set<() => void>>();
  /** Calls under way; `close` lets them end. */
  readonly #calls = new Set<Promise<unknown>>();
  #connection: Promise<RemoteConnection> | undefined;
  #closed: Promise<void> | undefined;

  constructor(source: EndpointSource, options: RemoteOptions) {
    this.#source = source;
    this.#clock = options.clock ?? systemClock;
    this.#limitMs = options.transactionLimitMs ?? TRANSACTION_LIMIT_MS;
  }

  query(text: string, params?: readonly SqlParam[]): Promise<readonly SqlRow[]> {
    return this.#track(async () => {
      const connection = await this.#connected();
      return await connection.request({ op: 'query', text, params, tx: null });
    });
  }

  transaction<T>(fn: (tx: SqlRunner) => Promise<T>): Promise<T> {
    return this.#track(async () => {
      // A whole transaction uses one connection; the server drops it when that breaks.
      const connection = await this.#connected();
      const { id: tx, reply } = connection.send({ op: 'begin' });
      await reply;
      const runner: SqlRunner = {
        query: (text, params) => connection.request({ op: 'query', text, params, tx }),
      };
      const limit = { clock: this.#clock, limitMs: this.#limitMs };
      let value: T;
      try {
        value = await runLimited(runner, fn, limit);
      } catch (error) {
        // If this cannot be sent, the server rolls back when it sees the connection break.
        await connection.request({ op: 'rollback', tx }).catch(() => undefined);
        throw error;
      }
      await connection.request({ op: 'commit', tx });
      return value;
    });
  }

  /**
   * The server hints once whenever a subscription begins, so nothing is missed between this call
   * and then. A loss is hinted too: the listener's next call connects and subscribes anew.
   */
  listen(channel: string, hint: () => void): () => void {
    const hints = this.#listeners.get(channel) ?? new Set();
    // The same function may listen twice; each undo ends one of them.
    const own = (): void => hint();
    hints.add(own);
    if (hints.size === 1) {
      this.#listeners.set(channel, hints);
      this.#sendRequest('listen', channel);
    }
    return () => {
      if (!hints.delete(own) || hints.size > 0) return;
      this.#listeners.delete(channel);
      if (this.#connection !== undefined) this.#sendRequest('unlisten', channel);
    };
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#listeners.clear();
    await Promise.allSettled(this.#calls);
    const connection = await this.#connection?.catch(() => undefined);
    connection?.destroy();
  }

  #sendRequest(op: 'listen' | 'unlisten', channel: string): void {
    if (this.#closed !== undefined) return;
    // Without a connection there is nothing to end, and the next one starts with all subscriptions.
    this.#connected()
      .then(connection => connection.request({ op, channel }))
      .catch(() => undefined);
  }

  async #track<T>(run: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw remoteClosed();
    const call = run();
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  #connected(): Promise<RemoteConnection> {
    this.#connection ??= this.#connect();
    return this.#connection;
  }

  async #connect(): Promise<RemoteConnection> {
    try {
      // Also makes sure that `#connection` is set before anything below can fail.
      const endpoint = await (typeof this.#source === 'function' ? this.#source() : this.#source);
      const connection = await RemoteConnection.open(endpoint, {
        clock: this.#clock,
        onHint: channel => this.#hint(channel),
        onLost: () => this.#lost(),
      });
      for (const channel of this.#listeners.keys()) {
        // Fails only with the connection, and then `#lost` handles it.
        connection.request({ op: 'listen', channel }).catch(() => undefined);
      }
      return connection;
    } catch (error) {
      this.#connection = undefined;
      throw error;
    }
  }

  #lost(): void {
    this.#connection = undefined;
    for (const channel of this.#listeners.keys()) this.#hint(channel);
  }

  #hint(channel: string): void {
    for (const hint of this.#listeners.get(channel) ?? []) hint();
  }
}

function remoteClosed(): Error {
  return storeUnavailable(
    'This connection to the embedded database was closed.',
    'Open it again, or make no calls after close().',
  );
}
