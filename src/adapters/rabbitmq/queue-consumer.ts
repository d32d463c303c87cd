import type { ConsumeMessage } from 'amqplib';
import type { Delivery } from '../../broker/broker.ts';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import { lost } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { Subscription, type ConsumingEnd } from './subscription.ts';
import { ensureQueue, type QueueShape } from './topology.ts';

/** A queue that cannot be consumed (no permission, its node is down) is tried again, not hammered. */
const RESUBSCRIBE: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };

export interface ConsumerOptions {
  readonly link: RabbitLink;
  readonly shape: QueueShape;
  /** Messages held here without an answer. */
  readonly prefetch: number;
  /** Told of every failure; consuming goes on by itself. */
  readonly onTrouble: (error: unknown) => void;
}

/**
 * Consumes one queue into a buffer.
 *
 *   idle ──resume──► subscribing ──► consuming ──lost, or cancelled by the server──► subscribing, a little later
 *     ▲                                 │
 *     └─────────────pause───────────────┘   what nobody has taken goes back; what was taken can still be answered
 */
export class QueueConsumer {
  readonly #queue: string;
  readonly #options: ConsumerOptions;
  readonly #onMessage: () => void;
  readonly #closing = new AbortController();
  #buffer: Delivery[] = [];
  #isWanted = false;
  #subscription: Subscription | null = null;
  #isWorking = false;

  constructor(queue: string, options: ConsumerOptions, onMessage: () => void) {
    this.#queue = queue;
    this.#options = options;
    this.#onMessage = onMessage;
  }

  /** Up to `limit` messages that are here already. */
  take(limit: number): readonly Delivery[] {
    this.#resume();
    return this.#buffer.splice(0, limit);
  }

  #resume(): void {
    if (this.#closing.signal.aborted) return;
    this.#isWanted = true;
    if (!this.#isWorking) void this.#work();
  }

  /** Of a channel that is gone nothing can be answered: the server has delivered its messages again. */
  acknowledge(tags: readonly TagParts[]): void {
    const ours = tags.filter(({ subscription }) => subscription === this.#subscription?.name);
    this.#subscription?.acknowledge(ours.map(({ deliveryTag }) => deliveryTag));
  }

  giveBack({ subscription, deliveryTag }: TagParts): void {
    if (this.#subscription?.name === subscription) this.#subscription.giveBack(deliveryTag);
  }

  /** Stops consuming and gives back what nobody has taken. The next `take` goes on. */
  async pause(): Promise<void> {
    this.#isWanted = false;
    // Cancelled first: otherwise the server would give them straight back to us.
    await this.#subscription?.stop();
    for (const { tag } of this.#buffer.splice(0)) this.giveBack(readTag(tag));
  }

  async close(): Promise<void> {
    this.#isWanted = false;
    this.#closing.abort();
    await this.#subscription?.close();
  }

  /** One round for every time the queue has to be subscribed to. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    let failures = 0;
    while (this.#isWanted) {
      const link = await this.#openLink();
      if (link === null) continue;
      const startedAt = systemClock.monotonic();
      try {
        const end = await this.#consume(link);
        if (end === 'stopped' || !this.#isWanted) continue;
        throw lost('channel', this.#subscription?.reason ?? new Error(`consuming was ${end}`));
      } catch (error) {
        if (this.#closing.signal.aborted) break;
        this.#options.onTrouble(error);
        if (systemClock.monotonic() - startedAt > RESUBSCRIBE.maxMs) failures = 0;
        const waitMs = backoffMs(RESUBSCRIBE, failures++, 0.5 + Math.random() / 2);
        await sleep(systemClock, waitMs, this.#closing.signal);
      }
    }
    this.#isWorking = false;
  }

  /** Null when there is no connection yet: the link itself waits between two attempts. */
  async #openLink(): Promise<OpenLink | null> {
    try {
      return await this.#options.link.open();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#options.onTrouble(error);
      return null;
    }
  }

  async #consume({ model }: OpenLink): Promise<ConsumingEnd> {
    const { shape, prefetch } = this.#options;
    await ensureQueue(model, this.#queue, shape);
    let subscription = this.#subscription;
    if (!subscription?.isOpen) {
      subscription = await Subscription.open(model, prefetch);
      this.#subscription = subscription;
    }
    if (!this.#isWanted) return 'stopped';
    const current = subscription;
    const end = await current.consume(this.#queue, message => this.#receive(current, message));
    // Everything on a channel that is gone is delivered again: our copies are none any more.
    if (!current.isOpen) this.#buffer = [];
    return end;
  }

  #receive(subscription: Subscription, { fields, properties, content }: ConsumeMessage): void {
    const { deliveryTag } = fields;
    // It has crossed our cancelling on the way.
    if (!this.#isWanted) return subscription.giveBack(deliveryTag);
    this.#buffer.push({
      tag: writeTag({ queue: this.#queue, subscription: subscription.name, deliveryTag }),
      message: decodeMessage({
        headers: properties.headers,
        properties,
        body: content,
        queue: this.#queue,
      }),
    });
    this.#onMessage();
  }
}

export interface TagParts {
  readonly queue: string;
  readonly subscription: string;
  readonly deliveryTag: number;
}

// Queue names have no spaces.
const writeTag = (parts: TagParts): string =>
  `${parts.subscription} ${parts.deliveryTag} ${parts.queue}`;

export function readTag(tag: string): TagParts {
  const [subscription = '', deliveryTag, ...queue] = tag.split(' ');
  return { subscription, deliveryTag: Number(deliveryTag), queue: queue.join(' ') };
}
