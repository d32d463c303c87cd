import type { RedisConnection } from './redis-connection.ts';
import { queueKeys } from './redis-keys.ts';

/** Blocked connections per consumer. Beyond that looking is cheaper: one EXISTS asks about all lists at once. */
const MOST_PEEKS = 8;
const LOOK_MS = 25;
/** Much less than the silence after which a connection counts as broken. */
const BLOCK_SECONDS = 3;
const RETRY_MS = 500;

/**
 * Tells when a queue has something, and takes nothing: what a blocking pop returns to a process that dies is lost.
 *
 * It looks only while armed, that is after a `take` that found nothing; a hint disarms it. Otherwise a full queue would
 * be a hint without end to a worker that has no place free.
 */
export class RedisWatch {
  readonly #hints = new Set<() => void>();
  readonly #looks: readonly Look[];

  constructor(connection: RedisConnection, queues: readonly string[]) {
    const lists = queues.map(queue => queueKeys(queue, connection.isCluster).lists);
    const tell = (): void => {
      for (const hint of this.#hints) hint();
    };
    // A cluster's client has one connection to each node: a command that blocks would hold up all others there.
    const isPolling = connection.isCluster || lists.flat().length > MOST_PEEKS;
    this.#looks = isPolling
      ? [new PollingLook(connection, lists, tell)]
      : lists.flat().map(list => new BlockingLook(connection.another(), list, tell));
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

/** Waits until one list is not empty, on a connection of its own: its last element is moved from its end to its end. */
class BlockingLook implements Look {
  readonly #connection: RedisConnection;
  readonly #list: string;
  readonly #tell: () => void;
  #isArmed = false;
  #isLooking = false;
  #isClosed = false;

  constructor(connection: RedisConnection, list: string, tell: () => void) {
    this.#connection = connection;
    this.#list = list;
    this.#tell = tell;
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
        this.#tell();
      }
    }
    this.#isLooking = false;
  }

  async #peek(): Promise<boolean> {
    try {
      const ends = [this.#list, this.#list, 'RIGHT', 'RIGHT', BLOCK_SECONDS];
      return (await this.#connection.command('blmove', ...ends)) !== null;
    } catch {
      // It is away, or its memory is full; workers ask by themselves now and then.
      if (!this.#isClosed) await new Promise(resolve => setTimeout(resolve, RETRY_MS).unref());
      return false;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
  }
}

/** Asks again and again whether any of many lists is there. */
class PollingLook implements Look {
  readonly #connection: RedisConnection;
  readonly #lists: readonly (readonly string[])[];
  readonly #tell: () => void;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    connection: RedisConnection,
    lists: readonly (readonly string[])[],
    tell: () => void,
  ) {
    this.#connection = connection;
    // Keys of several queues go together in one command, but not to several nodes.
    this.#lists = connection.isCluster ? lists : [lists.flat()];
    this.#tell = tell;
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
        if (!this.#isClosed) this.#tell();
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
