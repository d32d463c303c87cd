import type { Client } from 'pg';

/** Reconnecting at once to a server that restarts only fills its log. */
const RECONNECT_MS = 500;

/**
 * A separate connection for LISTEN. Hints are only hints: while it is away the polls of relay and worker carry
 * on, and when it is back every listener is hinted once, because notifications may have been missed.
 */
export class PgListener {
  readonly #makeClient: () => Client;
  readonly #hints = new Map<string, Set<() => void>>();
  #client: Client | undefined;
  #ready: Promise<unknown> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(makeClient: () => Client) {
    this.#makeClient = makeClient;
  }

  listen(channel: string, hint: () => void): () => void {
    const isNew = !this.#hints.has(channel);
    const hints = this.#hints.get(channel) ?? new Set();
    this.#hints.set(channel, hints.add(hint));
    if (!this.#client && !this.#retry) this.#connect();
    else if (isNew && this.#client) this.#subscribe(this.#client, channel);
    return () => hints.delete(hint);
  }

  #connect(): void {
    this.#retry = undefined;
    const client = this.#makeClient();
    this.#client = client;
    client.on('notification', message => this.#tell(message.channel));
    const lost = (): void => this.#lost(client);
    client.on('error', lost);
    client.on('end', lost);
    this.#ready = client.connect();
    for (const channel of this.#hints.keys()) this.#subscribe(client, channel);
  }

  /** One after the other: a client takes one statement at a time. */
  #subscribe(client: Client, channel: string): void {
    this.#ready = this.#ready.then(async () => {
      await client.query(`listen ${client.escapeIdentifier(channel)}`);
      // Commits before LISTEN took effect are covered by one hint.
      this.#tell(channel);
    });
    this.#ready.catch(() => this.#lost(client));
  }

  #tell(channel: string): void {
    for (const hint of this.#hints.get(channel) ?? []) hint();
  }

  #lost(client: Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    client.end().catch(() => undefined);
    if (!this.#isClosed) this.#retry = setTimeout(() => this.#connect(), RECONNECT_MS).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }
}
