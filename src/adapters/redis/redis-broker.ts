import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Broker, Delivery, PublishOutcome } from '../../broker/broker.ts';
import { systemClock } from '../../runtime/clock.ts';
import type { Envelope } from '../../task/envelope.ts';
import { RedisConnection } from './redis-connection.ts';
import { decodeElement } from './redis-element.ts';
import { RedisHold } from './redis-hold.ts';
import { RedisPublisher } from './redis-publish.ts';
import { RedisWatch } from './redis-watch.ts';

export interface RedisBrokerOptions {
  /**
   * What a consumer holds returns this long after its last sign of life, in milliseconds.
   *
   * @default 5000
   */
  readonly leaseMs?: number;
}

const LEASE_MS = 5_000;

/** Reads the URL and loads the driver; connects when it is first asked for something. */
export async function openRedisBroker(
  url: string,
  options: RedisBrokerOptions = {},
): Promise<RedisBroker> {
  const consumer = `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`;
  const name = `outlast-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'broker', name });
  const hold = new RedisHold(connection, { consumer, leaseMs: options.leaseMs ?? LEASE_MS });
  return new RedisBroker(connection, hold, consumer);
}

/**
 * Lists of Redis as queues, in the form of kombu's Redis transport: Celery workers run what we send, and we take what
 * Celery producers send. What kombu does when it takes is not copied: it pops, then writes down what it popped, and a
 * process that dies in between has lost a task. Here both are one script.
 *
 *   list ──take──► held, under a lease ──ack──► gone
 *    ▲                │
 *    └──give back, lease over, close
 */
export class RedisBroker implements Broker {
  /** The name under which this process holds what it took. */
  readonly consumer: string;
  readonly #connection: RedisConnection;
  readonly #publisher: RedisPublisher;
  readonly #hold: RedisHold;
  readonly #watches = new Map<string, RedisWatch>();
  /** When each queue was last asked for messages and answered. */
  readonly #answeredAt = new Map<string, number>();

  constructor(connection: RedisConnection, hold: RedisHold, consumer: string) {
    this.consumer = consumer;
    this.#connection = connection;
    this.#hold = hold;
    this.#publisher = new RedisPublisher(connection, `gen${process.pid}@${hostname()}`);
  }

  async publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    return await this.#publisher.publish(messages);
  }

  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    if (queues.length === 0 || limit <= 0) return [];
    const taken = await this.#hold.take(queues, limit);
    const now = systemClock.monotonic();
    for (const queue of queues) this.#answeredAt.set(queue, now);
    if (taken.length === 0) for (const watch of this.#watches.values()) watch.arm();
    return taken.map(({ tag, bytes, queue, place }) => ({
      tag,
      message: decodeElement(bytes, queue, place),
    }));
  }

  async ack(deliveries: readonly Delivery[]): Promise<void> {
    await this.#hold.acknowledge(deliveries.map(({ tag }) => tag));
  }

  forget(deliveries: readonly Delivery[]): void {
    this.#hold.forget(deliveries.map(({ tag }) => tag));
  }

  async giveBack(deliveries: readonly Delivery[]): Promise<void> {
    await this.#hold.giveBack(deliveries.map(({ tag }) => tag));
  }

  onReady(queues: readonly string[], hint: () => void): () => void {
    const watched = [...new Set(queues)].sort();
    const key = watched.join('\n');
    const watch = this.#watches.get(key) ?? new RedisWatch(this.#connection, watched);
    this.#watches.set(key, watch);
    const undo = watch.onReady(hint);
    return () => {
      undo();
      if (watch.isWanted) return;
      watch.close();
      this.#watches.delete(key);
    };
  }

  silentMs(queues: readonly string[]): number | null {
    const now = systemClock.monotonic();
    let longest = 0;
    for (const queue of queues) {
      const answeredAt = this.#answeredAt.get(queue);
      if (answeredAt === undefined) return null;
      longest = Math.max(longest, now - answeredAt);
    }
    return longest;
  }

  async close(): Promise<void> {
    for (const watch of this.#watches.values()) watch.close();
    await this.#hold.close();
    this.#connection.close();
  }
}
