import type { Socket } from 'node:net';
import type { Client } from 'pg';

/** Reconnecting at once to a server that restarts only fills its log. */
const RECONNECT_MS = 500;

/** A client that gives up connecting, and each statement, after a time. */
export interface ListeningClient {
  readonly client: Client;
  readonly socket: Socket;
}

/**
 * A separate connection for LISTEN. Hints are only hints: while it is away the polls of relay and worker carry
 * on, and when it is back every listener is hinted once, because notifications may have been missed.
 *
 * Nothing is ever written on a connection that only listens, so a half-open one would look like a quiet one for hours:
 * it is asked for an answer from time to time.
 */
export class PgListener {
  readonly #makeClient: () => ListeningClient;
  readonly #probeMs: number;
  readonly #hints = new Map<string, Set<() => void>>();
  #current: ListeningClient | undefined;
  #ready: Promise<unknown> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #probe: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param probeMs how long a connection may be quiet before it is asked for an answer */
  constructor(makeClient: () => ListeningClient, probeMs: number) {
    this.#makeClient = makeClient;
    this.#probeMs = probeMs;
  }

  listen(channel: string, hint: () => void): () => void {
    const isNew = !this.#hints.has(channel);
    const hints = this.#hints.get(channel) ?? new Set();
    this.#hints.set(channel, hints.add(hint));
    if (!this.#current && !this.#retry) this.#connect();
    else if (isNew && this.#current) this.#subscribe(this.#current, channel);
    return () => hints.delete(hint);
  }

  #connect(): void {
    this.#retry = undefined;
    const made = this.#makeClient();
    const { client } = made;
    this.#current = made;
    client.on('notification', message => this.#tell(message.channel));
    const lost = (): void => this.#lost(made);
    client.on('error', lost);
    client.on('end', lost);
    this.#ready = client.connect();
    for (const channel of this.#hints.keys()) this.#subscribe(made, channel);
    this.#probe = setInterval(() => this.#ask(made, 'select 1'), this.#probeMs).unref();
  }

  #subscribe(made: ListeningClient, channel: string): void {
    // Commits before LISTEN took effect are covered by one hint.
    this.#ask(made, `listen ${made.client.escapeIdentifier(channel)}`, () => this.#tell(channel));
  }

  /** One after the other: a client takes one statement at a time. */
  #ask(made: ListeningClient, text: string, then: () => void = () => undefined): void {
    this.#ready = this.#ready.then(() => made.client.query(text)).then(then);
    this.#ready.catch(() => this.#lost(made));
  }

  #tell(channel: string): void {
    for (const hint of this.#hints.get(channel) ?? []) hint();
  }

  #lost(made: ListeningClient): void {
    if (this.#current !== made) return;
    this.#current = undefined;
    clearInterval(this.#probe);
    made.client.end().catch(() => undefined);
    // A server that does not answer does not answer a farewell either.
    made.socket.destroy();
    if (!this.#isClosed) this.#retry = setTimeout(() => this.#connect(), RECONNECT_MS).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    clearInterval(this.#probe);
    const current = this.#current;
    this.#current = undefined;
    await current?.client.end().catch(() => undefined);
  }
}
