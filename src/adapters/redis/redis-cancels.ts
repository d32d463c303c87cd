import type { CancelStatus } from '../../ledger/ledger.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { RedisPartitions } from './redis-partitions.ts';

/**
 * Cancelling on a cluster, where a task that has not arrived has no queue yet. Its tombstone is left in every known
 * queue, and in the home for later ones. A process that uses a queue first registers it, then reads the home; a process
 * that cancels writes to the home first, then reads the registered queues. One of the two sees the other.
 */
export class RedisCancels {
  readonly #connection: RedisConnection;
  readonly #parts: RedisPartitions;

  constructor(connection: RedisConnection, parts: RedisPartitions) {
    this.#connection = connection;
    this.#parts = parts;
  }

  async cancel(id: string): Promise<CancelStatus> {
    const parts = await this.#parts.all(true);
    const known = await Promise.all(parts.map(part => part.cancelKnown(id)));
    if (known.includes('ok')) return 'ok';
    if (known.includes('terminal')) return 'terminal';
    await this.#connection.command('sadd', this.#unseen, id);
    await this.#parts.home.cancel(id);
    const all = await this.#parts.all(true);
    const statuses = await Promise.all(all.map(part => part.cancelAsWell(id)));
    // It arrived and ended between the two reads.
    return statuses.includes('terminal') ? 'terminal' : 'ok';
  }

  /** Copies tombstones of earlier cancellations to a new queue. */
  async copyTo(queue: string): Promise<void> {
    const ids = (await this.#connection.command('smembers', this.#unseen)) as readonly Buffer[];
    const part = this.#parts.of(queue);
    for (const id of ids) await part.cancelAsWell(String(id));
  }

  /** Drops what the home has dropped. */
  async prune(limit: number): Promise<void> {
    const ids = await this.#connection.command('srandmember', this.#unseen, Math.max(1, limit));
    for (const id of (ids as readonly Buffer[]).map(String)) {
      const key = `${this.#parts.homeRoot}t:${id}`;
      const isKept = (await this.#connection.command('exists', key)) === 1;
      if (!isKept) await this.#connection.command('srem', this.#unseen, id);
    }
  }

  get #unseen(): string {
    return `${this.#parts.homeRoot}unseen`;
  }
}
