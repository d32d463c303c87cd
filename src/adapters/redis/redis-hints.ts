import type { RedisConnection } from './redis-connection.ts';

/** A subscription that failed is tried again; until then polling must do. */
const RETRY_MS = 1_000;

/** Passes on that tasks may have become ready, on a connection that is there only while somebody listens. */
export class RedisHints {
  readonly #connection: RedisConnection;
  readonly #pattern: string;
  readonly #hints = new Set<() => void>();
  #listening: RedisConnection | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: RedisConnection, pattern: string) {
    this.#connection = connection;
    this.#pattern = pattern;
  }

  add(hint: () => void): () => void {
    // Its own entry, however often the same function is given.
    const entry = (): void => hint();
    this.#hints.add(entry);
    if (this.#listening === null) this.#listen();
    return () => {
      this.#hints.delete(entry);
      if (this.#hints.size === 0) this.close();
    };
  }

  close(): void {
    this.#hints.clear();
    clearTimeout(this.#timer);
    this.#listening?.close();
    this.#listening = null;
  }

  #listen(): void {
    const connection = this.#connection.another();
    this.#listening = connection;
    const tell = (): void => {
      for (const hint of this.#hints) hint();
    };
    connection.subscribe(this.#pattern, tell).catch(() => {
      connection.close();
      if (this.#listening !== connection) return;
      this.#timer = setTimeout(() => this.#listen(), RETRY_MS).unref();
    });
  }
}
