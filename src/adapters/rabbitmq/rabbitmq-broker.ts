import { hostname } from 'node:os';
import type { Broker, Delivery, PublishOutcome } from '../../broker/broker.ts';
import type { RabbitTarget } from '../../config/broker-target.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import type { Envelope } from '../../task/envelope.ts';
import { Publisher } from './publisher.ts';
import { QueueConsumer, readTag, type TagParts } from './queue-consumer.ts';
import { Replier } from './replier.ts';
import { RabbitLink } from './rabbitmq-link.ts';
import { SharedWindows } from './shared-windows.ts';

export interface RabbitBrokerOptions {
  /** Messages held without an answer: as many as run at once, of each queue that is consumed alone. */
  readonly prefetch: number;
  /** Told of failures that are overcome by trying again. */
  readonly onTrouble: (error: unknown) => void;
  /** The server has stopped taking messages (memory, disk), or takes them again (null). */
  readonly onBlocked: (reason: string | null) => void;
}

/** How long the last answers may take to be written. */
const GOODBYE_MS = 2_000;

/**
 * RabbitMQ in Celery's own topology and protocol. Publishing and consuming have a connection each: an alarm blocks
 * publishers, and on a shared connection the acknowledgements with them. Nothing is connected before it is needed.
 */
export class RabbitBroker implements Broker {
  readonly isPushing = true;
  readonly reply?: NonNullable<Broker['reply']>;
  readonly #publishing: RabbitLink;
  readonly #consuming: RabbitLink;
  readonly #publisher: Publisher;
  readonly #consumers = new Map<string, QueueConsumer>();
  readonly #hints = new Set<{ readonly queues: ReadonlySet<string>; readonly hint: () => void }>();
  readonly #makeConsumer: (queue: string, isAlone: boolean) => QueueConsumer;

  constructor(target: RabbitTarget, options: RabbitBrokerOptions) {
    const { prefetch, onTrouble, onBlocked } = options;
    this.#publishing = new RabbitLink(target.hosts, 'publisher', { onBlocked });
    // A consumer sends nothing that could be blocked.
    this.#consuming = new RabbitLink(target.hosts, 'consumer', { onBlocked: () => undefined });
    const origin = `gen${process.pid}@${hostname()}`;
    this.#publisher = new Publisher(this.#publishing, target, origin);
    const replier = new Replier(this.#publishing);
    if (target.replies === 'on') this.reply = replies => replier.reply(replies);
    const shared = { link: this.#consuming, shape: target, prefetch, onTrouble };
    // With `begin` nothing is held that runs, and every queue was given its share already.
    const windows = target.ackOn === 'commit' ? { windows: new SharedWindows(prefetch) } : {};
    this.#makeConsumer = (queue, isAlone) =>
      new QueueConsumer(queue, isAlone ? shared : { ...shared, ...windows }, () =>
        this.#tell(queue),
      );
  }

  publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    return this.#publisher.publish(messages);
  }

  /** What has been pushed to us so far; consuming a queue begins with the first take from it. */
  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    const taken: Delivery[] = [];
    // All of them first: what they share depends on how many they are.
    const consumers = queues.map(queue => this.#consumer(queue, queues.length === 1));
    for (const consumer of consumers)
      taken.push(...consumer.take(Math.max(limit - taken.length, 0)));
    return Promise.resolve(taken);
  }

  ack(deliveries: readonly Delivery[]): Promise<void> {
    const byQueue = new Map<string, TagParts[]>();
    for (const { tag } of deliveries) {
      const parts = readTag(tag);
      const same = byQueue.get(parts.queue);
      if (same) same.push(parts);
      else byQueue.set(parts.queue, [parts]);
    }
    for (const [queue, parts] of byQueue) this.#consumers.get(queue)?.acknowledge(parts);
    return Promise.resolve();
  }

  /** Whoever gives back cannot begin anything now: nothing more is pushed to us before the next take. */
  async giveBack(deliveries: readonly Delivery[]): Promise<void> {
    const tags = deliveries.map(({ tag }) => readTag(tag));
    await this.#pause(new Set(tags.map(({ queue }) => queue)));
    for (const tag of tags) this.#consumers.get(tag.queue)?.giveBack(tag);
  }

  /** When the last one who waited for a queue has left, what was not taken from it goes back. */
  onReady(queues: readonly string[], hint: () => void): () => void {
    const entry = { queues: new Set(queues), hint };
    this.#hints.add(entry);
    return () => {
      if (!this.#hints.delete(entry)) return;
      const isAwaited = (queue: string): boolean =>
        [...this.#hints].some(other => other.queues.has(queue));
      void this.#pause(queues.filter(queue => !isAwaited(queue)));
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

  async close(): Promise<void> {
    const consumers = [...this.#consumers.values()].map(consumer => consumer.close());
    await Promise.race([Promise.all(consumers), sleep(systemClock, GOODBYE_MS)]);
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

  #tell(queue: string): void {
    for (const entry of this.#hints) if (entry.queues.has(queue)) entry.hint();
  }
}
