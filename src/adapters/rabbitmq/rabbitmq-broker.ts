import { hostname } from 'node:os';
import type { Broker, Delivery, PublishManner, PublishOutcome } from '../../broker/broker.ts';
import type { Demand } from '../../broker/demand.ts';
import { publishWithin } from '../../broker/destination-guard.ts';
import type { RabbitTarget } from '../../config/broker-target.ts';
import { ByteAllowance } from '../../runtime/wakeable.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import { MAX_MESSAGE_BYTES } from '../../wire/message.ts';
import { DelayedDelivery } from './delayed-delivery.ts';
import { Publisher } from './publisher.ts';
import { QueueConsumer, readTag, type TagParts } from './queue-consumer.ts';
import { Replier } from './replier.ts';
import { RabbitLink } from './rabbitmq-link.ts';

export interface RabbitBrokerOptions {
  /** The largest message that is accepted whole. @default 16777216 */
  readonly maxMessageBytes?: number;
  /** Called with failures that are retried. */
  readonly onTrouble: (error: unknown) => void;
  /** The server has stopped accepting messages (memory, disk), or accepts them again (null). */
  readonly onBlocked: (reason: string | null) => void;
}

/** How long the last acknowledgements may take to be written. */
const CLOSE_MS = 2_000;

/**
 * RabbitMQ with Celery's own topology and protocol. Publishing and consuming use separate connections: an alarm blocks
 * publishers, and on a shared connection their acknowledgements too. It connects when first needed.
 */
export class RabbitBroker implements Broker {
  readonly hasQueues = true;
  readonly reply?: NonNullable<Broker['reply']>;
  readonly #publishing: RabbitLink;
  readonly #consuming: RabbitLink;
  readonly #publisher: Publisher;
  readonly #replier: Replier;
  readonly #maxMessageBytes: number;
  readonly #consumers = new Map<string, QueueConsumer>();
  readonly #hints = new Set<{ readonly queues: ReadonlySet<string>; readonly hint: () => void }>();
  #blockedBy: string | null = null;
  readonly #makeConsumer: (queue: string, isAlone: boolean) => QueueConsumer;
  #demand: Demand | null = null;

  constructor(target: RabbitTarget, options: RabbitBrokerOptions) {
    const { maxMessageBytes = MAX_MESSAGE_BYTES, onTrouble, onBlocked } = options;
    this.#maxMessageBytes = maxMessageBytes;
    this.#publishing = new RabbitLink(target.hosts, 'publisher', {
      onBlocked: reason => {
        this.#blockedBy = reason;
        onBlocked(reason);
      },
    });
    // A consumer sends nothing that could be blocked.
    this.#consuming = new RabbitLink(target.hosts, 'consumer', { onBlocked: () => undefined });
    const origin = `gen${process.pid}@${hostname()}`;
    this.#publisher = new Publisher(this.#publishing, target, { origin, onTrouble });
    this.#replier = new Replier(this.#publishing);
    if (target.replies === 'on') this.reply = replies => this.#replier.reply(replies);
    const { delayedDelivery: type } = target;
    const delayed = type === 'off' ? null : new DelayedDelivery(type, onTrouble);
    const shared = { link: this.#consuming, shape: target, delayed, maxMessageBytes, onTrouble };
    this.#makeConsumer = (queue, isAlone) => {
      const demand = this.#demand;
      if (demand === null) throw new Error('the broker was not told how much it may push');
      const isAwaited = (): boolean => this.#isAwaited(queue);
      const asked = { ...shared, demand, isAlone, isAwaited };
      return new QueueConsumer(queue, asked, () => this.#notify(queue));
    };
  }

  pushWithin(demand: Demand): void {
    this.#demand = demand;
  }

  publish(
    messages: readonly Envelope[],
    manner?: PublishManner,
  ): Promise<readonly PublishOutcome[]> {
    return publishWithin(messages, this.#maxMessageBytes, some =>
      this.#publisher.publish(some, manner),
    );
  }

  revoke(id: string): Promise<void> {
    return this.#replier.revoke(id);
  }

  /** Messages pushed to us so far; the first take from a queue starts consuming it. */
  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    const taken: Delivery[] = [];
    // Create all of them first: their quota depends on how many there are.
    const consumers = queues.map(queue => this.#consumer(queue, queues.length === 1));
    const allowance = new ByteAllowance();
    for (const consumer of consumers) {
      const some = consumer.take(Math.max(limit - taken.length, 0), allowance);
      taken.push(...(some instanceof Promise ? await some : some));
    }
    return taken;
  }

  ack(deliveries: readonly Delivery[]): Promise<void> {
    for (const [queue, parts] of byQueue(deliveries))
      this.#consumers.get(queue)?.acknowledge(parts);
    return Promise.resolve();
  }

  /** A worker that gives back cannot begin anything now: nothing more is pushed to us until a take finds a queue empty. */
  async giveBack(deliveries: readonly Delivery[]): Promise<void> {
    const tags = byQueue(deliveries);
    await this.#pause(tags.keys());
    for (const [queue, parts] of tags) this.#consumers.get(queue)?.giveBack(parts);
  }

  requeue(deliveries: readonly Delivery[]): Promise<void> {
    for (const [queue, parts] of byQueue(deliveries)) this.#consumers.get(queue)?.giveBack(parts);
    return Promise.resolve();
  }

  /** When the last waiter for a queue has left, messages that were not taken from it go back. */
  onReady(queues: readonly string[], hint: () => void): () => void {
    const entry = { queues: new Set(queues), hint };
    this.#hints.add(entry);
    return () => {
      if (!this.#hints.delete(entry)) return;
      void this.#pause(queues.filter(queue => !this.#isAwaited(queue)));
    };
  }

  silentMs(queues: readonly string[]): number | null {
    let longest = 0;
    for (const queue of queues) {
      const silentMs = this.#consumers.get(queue)?.silentMs ?? null;
      if (silentMs === null) return null;
      longest = Math.max(longest, silentMs);
    }
    return longest;
  }

  blockedBy(): string | null {
    return this.#blockedBy;
  }

  async close(): Promise<void> {
    const consumers = [...this.#consumers.values()].map(consumer => consumer.close());
    await Promise.race([Promise.all(consumers), sleep(systemClock, CLOSE_MS)]);
    await Promise.all([this.#publishing.close(), this.#consuming.close()]);
  }

  #consumer(queue: string, isAlone: boolean): QueueConsumer {
    const known = this.#consumers.get(queue);
    if (known) return known;
    const made = this.#makeConsumer(queue, isAlone);
    this.#consumers.set(queue, made);
    return made;
  }

  async #pause(queues: Iterable<string>): Promise<void> {
    const pausing = [...queues].map(queue => this.#consumers.get(queue)?.pause() ?? null);
    await Promise.all(pausing.filter(pause => pause !== null));
  }

  #isAwaited(queue: string): boolean {
    for (const { queues } of this.#hints) if (queues.has(queue)) return true;
    return false;
  }

  #notify(queue: string): void {
    for (const entry of this.#hints) if (entry.queues.has(queue)) entry.hint();
  }
}

function byQueue(deliveries: readonly Delivery[]): ReadonlyMap<string, readonly TagParts[]> {
  const tags = new Map<string, TagParts[]>();
  for (const { tag } of deliveries) {
    const parts = readTag(tag);
    const same = tags.get(parts.queue);
    if (same) same.push(parts);
    else tags.set(parts.queue, [parts]);
  }
  return tags;
}
