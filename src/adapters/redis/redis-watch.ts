import type { RedisConnection } from './redis-connection.ts';
import { queueKeys } from './redis-keys.ts';

/** Blocked connections per consumer. Beyond that polling is cheaper: one EXISTS checks all lists at once. */
const MOST_PEEKS = 8;
const LOOK_MS = 25;
/** Much shorter than the silence after which a connection counts as broken. */
const BLOCK_SECONDS = 3;
const RETRY_MS = 500;

/**
 * Notices when a queue has messages, without taking any: if a process dies, the result of a blocking pop is lost.
 *
 * It looks only while armed, which is after a `take` that found nothing; a hint disarms it. Otherwise a full queue would
 * send endless hints to a worker without a free slot.
 */
export class RedisWatch {
  readonly #hints = new Set<() => void>();
  readonly #looks: readonly Look[];

  constructor(connection: RedisConnection, queues: readonly string[]) {
    const lists = queues.map(queue => queueKeys(queue, connection.isCluster).lists);
    const notify = (): void => {
      for (const hint of this.#hints) hint();
    };
    // A cluster client has one connection per node: a blocking command would hold up all others there.
    const isPolling = connection.isCluster || lists.flat().length > MOST_PEEKS;
    this.#looks = isPolling
      ? [new PollingLook(connection, lists, notify)]
      : lists.flat().map(list => new BlockingLook(connection.another(), list, notify));
  }

  get isWanted(): boolean {
    return this.#hints.size > 0;
  }

  onReady(hint: () => void): () => void {
    this.#hints.add(hint);
    this.arm();
    return () => void this.#hints.delete(hint);
  }

  arm(): void {
    for (const look of this.#looks) look.arm();
  }

  close(): void {
    for (const look of this.#looks) look.close();
  }
}

interface Look {
  arm(): void;
  close(): void;
}

/** Waits until one list is not empty, on a separate connection: moves the last element from the list's end to its end. */
class BlockingLook implements Look {
  readonly #connection: RedisConnection;
  readonly #list: string;
  readonly #notify: () => void;
  #isArmed = false;
  #isLooking = false;
  #isClosed = false;

  constructor(connection: RedisConnection, list: string, notify: () => void) {
    this.#connection = connection;
    this.#list = list;
    this.#notify = notify;
  }

  arm(): void {
    this.#isArmed = true;
    if (!this.#isLooking && !this.#isClosed) void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    while (this.#isArmed && !this.#isClosed) {
      const found = await this.#peek();
      if (found && this.#isArmed && !this.#isClosed) {
        this.#isArmed = false;
        this.#notify();
      }
    }
    this.#isLooking = false;
  }

  async #peek(): Promise<boolean> {
    try {
      const ends = [this.#list, this.#list, 'RIGHT', 'RIGHT', BLOCK_SECONDS];
      return (await this.#connection.command('blmove', ...ends)) !== null;
    } catch {
      // The server is away, or its memory is full; workers poll by themselves now and then.
      if (!this.#isClosed) await new Promise(resolve => setTimeout(resolve, RETRY_MS).unref());
      return false;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }
}

/** Polls whether any of many lists exists. */
class PollingLook implements Look {
  readonly #connection: RedisConnection;
  readonly #lists: readonly (readonly string[])[];
  readonly #notify: () => void;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    connection: RedisConnection,
    lists: readonly (readonly string[])[],
    notify: () => void,
  ) {
    this.#connection = connection;
    // One command can check keys of several queues, but not on several nodes.
    this.#lists = connection.isCluster ? lists : [lists.flat()];
    this.#notify = notify;
  }

  arm(): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS).unref();
  }

  async #look(): Promise<void> {
    let waitMs = LOOK_MS;
    try {
      const counts = this.#lists.map(keys => this.#connection.command('exists', ...keys));
      if ((await Promise.all(counts)).some(count => count !== 0)) {
        this.#timer = undefined;
        if (!this.#isClosed) this.#notify();
        return;
      }
    } catch {
      waitMs = RETRY_MS;
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#look(), waitMs).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
