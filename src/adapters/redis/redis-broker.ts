import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Broker, Delivery, PublishManner, PublishOutcome } from '../../broker/broker.ts';
import { publishWithin } from '../../broker/destination-guard.ts';
import { ByteAllowance } from '../../runtime/wakeable.ts';
import { systemClock } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import { CONTROL_EXCHANGE } from '../../wire/headers.ts';
import { writeRevoke } from '../../wire/control-message.ts';
import { MAX_MESSAGE_BYTES } from '../../wire/message.ts';
import { RedisConnection } from './redis-connection.ts';
import { decodeElement, encodeNotice } from './redis-element.ts';
import { RedisHold, type TakenElement } from './redis-hold.ts';
import { fanoutChannel } from './redis-keys.ts';
import { RedisPublisher } from './redis-publish.ts';
import { RedisWatch } from './redis-watch.ts';

export interface RedisBrokerOptions {
  /**
   * A consumer's elements return to the queue this long after its last heartbeat, in milliseconds.
   *
   * @default 5000
   */
  readonly leaseMs?: number;
  /**
   * The largest message that is accepted whole.
   *
   * @default 16777216
   */
  readonly maxMessageBytes?: number;
}

const LEASE_MS = 5_000;

/** Reads the URL and loads the driver; connects on first use. */
export async function openRedisBroker(
  url: string,
  options: RedisBrokerOptions = {},
): Promise<RedisBroker> {
  const consumer = `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`;
  const name = `outlast-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'broker', name });
  const hold = new RedisHold(connection, { consumer, leaseMs: options.leaseMs ?? LEASE_MS });
  return new RedisBroker(connection, hold, { consumer, ...options });
}

/**
 * Redis lists as queues, in the format of kombu's Redis transport: Celery workers run what we send, and we take what
 * Celery producers send. Taking differs from kombu: kombu pops, then writes down what it popped, and a process that dies
 * in between loses a task. Here both are one script.
 *
 *   list ──take──► held, under a lease ──ack──► gone
 *    ▲                │
 *    └──give back, lease over, close
 */
export class RedisBroker implements Broker {
  readonly hasQueues = true;
  readonly revoke?: NonNullable<Broker['revoke']>;
  /** The name under which this process holds elements. */
  readonly consumer: string;
  readonly #connection: RedisConnection;
  readonly #maxMessageBytes: number;
  readonly #publisher: RedisPublisher;
  readonly #hold: RedisHold;
  readonly #watches = new Map<string, RedisWatch>();
  /** When each queue last answered a take. */
  readonly #answeredAt = new Map<string, number>();

  constructor(
    connection: RedisConnection,
    hold: RedisHold,
    {
      consumer,
      maxMessageBytes = MAX_MESSAGE_BYTES,
    }: RedisBrokerOptions & { readonly consumer: string },
  ) {
    this.consumer = consumer;
    this.#maxMessageBytes = maxMessageBytes;
    this.#connection = connection;
    this.#hold = hold;
    // kombu, and so every Celery worker, knows no cluster.
    if (!connection.isCluster) this.revoke = id => publishRevoke(connection, id);
    this.#publisher = new RedisPublisher(connection, `gen${process.pid}@${hostname()}`);
  }

  async publish(
    messages: readonly Envelope[],
    manner?: PublishManner,
  ): Promise<readonly PublishOutcome[]> {
    return await publishWithin(messages, this.#maxMessageBytes, some =>
      this.#publisher.publish(some, manner),
    );
  }

  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    if (queues.length === 0 || limit <= 0) return [];
    for (const queue of queues) this.#publisher.declare(queue);
    const { elements: taken, silent } = await this.#hold.take(queues, limit);
    const now = systemClock.monotonic();
    for (const queue of queues) if (!silent.has(queue)) this.#answeredAt.set(queue, now);
    const decoded = this.#decode(taken);
    const rest = taken.slice(decoded.length).map(({ tag }) => tag);
    // If that fails, the next heartbeat does it: the decoded ones must be returned.
    if (rest.length > 0) await this.#hold.giveBack(rest).catch(() => undefined);
    if (taken.length === 0 || rest.length > 0)
      for (const watch of this.#watches.values()) watch.arm();
    return decoded;
  }

  /** Decodes up to the byte limit of one take: a few kilobytes may inflate to gigabytes. The others go back. */
  #decode(taken: readonly TakenElement[]): readonly Delivery[] {
    const allowance = new ByteAllowance();
    const decoded: Delivery[] = [];
    for (const { tag, bytes, queue, listIndex } of taken) {
      if (allowance.isSpent) break;
      const message = decodeElement(bytes, queue, listIndex, this.#maxMessageBytes);
      allowance.spend('body' in message ? message.body.length : bytes.length);
      decoded.push({ tag, message });
    }
    return decoded;
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

async function publishRevoke(connection: RedisConnection, id: string): Promise<void> {
  const notice = { ...writeRevoke(id), exchange: CONTROL_EXCHANGE, routingKey: '' };
  const channel = fanoutChannel(connection.db, CONTROL_EXCHANGE);
  await connection.command('publish', channel, encodeNotice(notice));
}
