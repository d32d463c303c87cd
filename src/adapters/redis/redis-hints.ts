import type { RedisConnection } from './redis-connection.ts';

/** A failed subscription is retried; until then workers rely on polling. */
const RETRY_MS = 1_000;

/** Forwards hints that tasks may be ready, on a connection that exists only while there are listeners. */
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
    // A separate entry, even if the same function is given twice.
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
    const notify = (): void => {
      for (const hint of this.#hints) hint();
    };
    connection.subscribe(this.#pattern, notify).catch(() => {
      connection.close();
      if (this.#listening !== connection) return;
      this.#timer = setTimeout(() => this.#listen(), RETRY_MS).unref();
    });
  }
}
