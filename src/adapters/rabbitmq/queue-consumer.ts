import type { ConsumeMessage, GetMessage } from 'amqplib';
import type { Delivery } from '../../broker/broker.ts';
import type { Demand, PushedQueue, PushWindow, QueueDemand } from '../../broker/demand.ts';
import { ByteAllowance, MessageSize } from '../../runtime/wakeable.ts';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import type { DelayedDelivery } from './delayed-delivery.ts';
import { lost } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { Subscription, type ConsumingEnd, type Window } from './subscription.ts';
import { within } from './with-channel.ts';
import { ensureQueue, type QueueShape } from './topology.ts';

/** A queue that cannot be consumed (no permission, its node is down) is retried with a backoff. */
const RESUBSCRIBE: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };

/** How long consuming waits until delayed messages reach the queue. */
const REACH_MS = 2_000;

export interface ConsumerOptions {
  readonly link: RabbitLink;
  readonly shape: QueueShape;
  /** Declared for the queue, so that messages which Celery delays reach it. */
  readonly delayed: DelayedDelivery | null;
  /** How many messages may be pushed. */
  readonly demand: Demand;
  /** It is the only queue of its process. */
  readonly isAlone: boolean;
  /** The worker waits for messages. */
  readonly isAwaited: () => boolean;
  /** The largest message that is accepted whole. */
  readonly maxMessageBytes?: number;
  /** Called with every failure; consuming resumes by itself. */
  readonly onTrouble: (error: unknown) => void;
}

/**
 * Consumes one queue into a buffer.
 *
 *   idle ──take──► subscribing ──► consuming ──lost, or cancelled by the server──► subscribing, a little later
 *                      ▲               │
 *   resume             │             pause: untaken messages go back, taken ones can still be answered
 *                      │               ▼
 *                      └──────────── pulling: `take` gets no more than it asks for, and nothing is pushed
 *
 * How much is pushed, and when to pause and resume, is decided in `worker/flow`. While tasks are long the queue is polled: a
 * message pushed to a process without a free slot waits there although another process may have one, and returning it
 * again and again would use up the delivery limit of a quorum queue.
 */
export class QueueConsumer implements PushedQueue {
  readonly #queue: string;
  readonly #options: ConsumerOptions;
  readonly #onMessage: () => void;
  readonly #closing = new AbortController();
  readonly #demand: QueueDemand;
  readonly #messageSize = new MessageSize();
  #buffer: Buffered[] = [];
  #isWanted = false;
  #isPulling = false;
  /** When the messages came that were pulled and are not answered yet. */
  readonly #pulled = new Map<number, number>();
  #subscription: Subscription | null = null;
  #isWorking = false;
  /** When it last consumed; null: never. Heartbeats end a connection that only seems to be open. */
  #consumedAt: number | null = null;

  constructor(queue: string, options: ConsumerOptions, onMessage: () => void) {
    this.#queue = queue;
    this.#options = options;
    this.#onMessage = onMessage;
    this.#demand = options.demand.join(this, options.isAlone);
  }

  get isConsuming(): boolean {
    return this.#isWanted && this.#subscription?.isConsuming === true;
  }

  get isPulling(): boolean {
    return this.#isPulling;
  }

  get isAwaited(): boolean {
    return this.#options.isAwaited();
  }

  get unacknowledged(): number {
    return this.#subscription?.held ?? 0;
  }

  get atHand(): number {
    return this.#buffer.length;
  }

  get bytesAtHand(): number {
    return this.#buffer.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get waitedMs(): number {
    const [first] = this.#buffer;
    return first === undefined ? 0 : systemClock.monotonic() - first.at;
  }

  get messageBytes(): number {
    return this.#messageSize.bytes;
  }

  /** Up to `limit` messages that are buffered; when pulling, that are in the queue. */
  take(
    limit: number,
    allowance: ByteAllowance = new ByteAllowance(),
  ): readonly Delivery[] | Promise<readonly Delivery[]> {
    if (this.#isPulling && this.#subscription?.isOpen === true)
      return limit > 0 ? this.#pull(this.#subscription, limit, allowance) : [];
    this.resume();
    const taken: Delivery[] = [];
    for (const { tag, message } of this.#buffer) {
      if (taken.length >= limit || allowance.isSpent) break;
      taken.push(this.#decode(tag, message, allowance));
    }
    this.#buffer.splice(0, taken.length);
    if (taken.length < limit && this.#buffer.length === 0) this.#demand.ranShort();
    // The rest can be taken without waiting for another message.
    if (allowance.isSpent && this.#buffer.length > 0) setImmediate(this.#onMessage);
    return taken;
  }

  /** How long it has not been consuming; null: it never was. */
  get silentMs(): number | null {
    if (this.#subscription?.isConsuming === true) return 0;
    if (this.#isPulling && this.#subscription?.isOpen === true) return 0;
    return this.#consumedAt === null ? null : systemClock.monotonic() - this.#consumedAt;
  }

  async #pull(
    subscription: Subscription,
    limit: number,
    allowance: ByteAllowance,
  ): Promise<readonly Delivery[]> {
    const taken: Delivery[] = [];
    const most = Math.min(limit, this.#demand.mostPulled);
    let message: GetMessage | null = null;
    if (allowance.isSpent) return taken;
    do {
      message = await subscription.get();
      if (message !== null) {
        this.#pulled.set(message.fields.deliveryTag, systemClock.monotonic());
        taken.push(this.#decode(this.#tagOf(subscription, message), message, allowance));
      }
    } while (message !== null && taken.length < most && !allowance.isSpent);
    if (message === null) this.#demand.foundEmpty();
    return taken;
  }

  resume(): void {
    if (this.#closing.signal.aborted) return;
    this.#isWanted = true;
    this.#isPulling = false;
    if (!this.#isWorking) void this.#work();
  }

  /** Messages of a closed channel cannot be answered: the server has delivered them again. */
  acknowledge(tags: readonly TagParts[]): void {
    const ours = tags.filter(({ subscription }) => subscription === this.#subscription?.name);
    const deliveryTags = ours.map(({ deliveryTag }) => deliveryTag);
    this.#subscription?.acknowledge(deliveryTags);
    this.#demand.acknowledged(ours.length, this.#pulledMs(deliveryTags));
  }

  /** How long ago the oldest pulled message came that had no answer before; null: none of these was pulled. */
  #pulledMs(deliveryTags: readonly number[]): number | null {
    if (this.#pulled.size === 0) return null;
    const [oldest = 0] = this.#pulled.values();
    const pulled = deliveryTags.filter(tag => this.#pulled.delete(tag));
    return pulled.length === 0 ? null : systemClock.monotonic() - oldest;
  }

  giveBack(tags: readonly TagParts[]): void {
    for (const { subscription, deliveryTag } of tags) {
      if (this.#subscription?.name !== subscription) continue;
      this.#subscription.giveBack(deliveryTag);
      this.#pulled.delete(deliveryTag);
    }
    this.#demand.changed();
  }

  /** The next `take` pulls. */
  async pause(): Promise<void> {
    this.#isWanted = false;
    this.#isPulling = true;
    this.#pulled.clear();
    // Cancel first: otherwise the server would push them straight back to us.
    await this.#subscription?.stop();
    this.giveBack(this.#buffer.splice(0).map(({ tag }) => readTag(tag)));
  }

  open(size: number): PushWindow | null {
    const subscription = this.#subscription;
    if (!this.#isWanted || !subscription?.isOpen) return null;
    return subscription.open(size, (message, window) =>
      this.#receive(subscription, message, window),
    );
  }

  async shut(windows: readonly PushWindow[], givesBack: boolean): Promise<void> {
    await this.#subscription?.shut(windows);
    if (!givesBack) return;
    const untaken = this.#buffer.filter(({ window }) => windows.includes(window));
    this.#buffer = this.#buffer.filter(({ window }) => !windows.includes(window));
    this.giveBack(untaken.map(({ tag }) => readTag(tag)));
  }

  async close(): Promise<void> {
    this.#isWanted = false;
    this.#closing.abort();
    await this.#subscription?.close();
  }

  /** One iteration per subscription to the queue. */
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

  /** Null when there is no connection yet: the link itself waits between attempts. */
  async #openLink(): Promise<OpenLink | null> {
    try {
      return await this.#options.link.open();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#options.onTrouble(error);
      return null;
    }
  }

  async #consume({ model }: OpenLink): Promise<ConsumingEnd> {
    await ensureQueue(model, this.#queue, this.#options.shape);
    await this.#reachLater(model);
    let subscription = this.#subscription;
    if (!subscription?.isOpen) {
      const onShut = (): void => this.#demand.changed();
      const onClose = (): void => this.#forget();
      subscription = await Subscription.open({ model, queue: this.#queue, onShut, onClose });
      this.#subscription = subscription;
    }
    if (!this.#isWanted) return 'stopped';
    const current = subscription;
    const end = await current.consume(this.#demand.first, (message, window) =>
      this.#receive(current, message, window),
    );
    this.#consumedAt = systemClock.monotonic();
    // The server cancels all consumers of a queue; the next iteration starts with the first window only.
    if (current.isOpen) await current.stop();
    return end;
  }

  /** Before the first message, if that is quick; messages that are due need not wait for those that are not. */
  async #reachLater(model: OpenLink['model']): Promise<void> {
    const { delayed } = this.#options;
    if (delayed === null) return;
    const reaching = delayed.keepReaching(model, this.#queue, this.#closing.signal);
    await within(REACH_MS, reaching, 'has delayed nothing yet').catch(() => undefined);
  }

  /**
   * The server redelivers everything from a closed channel, so our copies are void. This also applies while the queue is
   * paused: messages taken earlier occupy windows that other queues wait for.
   */
  #forget(): void {
    this.#buffer = [];
    this.#isPulling = false;
    this.#pulled.clear();
    this.#demand.changed();
  }

  #receive(subscription: Subscription, message: ConsumeMessage, window: Window): void {
    const { deliveryTag } = message.fields;
    // It was on its way when we cancelled.
    if (!this.#isWanted) {
      subscription.giveBack(deliveryTag);
      return this.#demand.changed();
    }
    const bytes = message.content.length;
    this.#messageSize.note(bytes);
    const tag = this.#tagOf(subscription, message);
    const at = systemClock.monotonic();
    if (this.#buffer.push({ tag, message, window, bytes, at }) === 1) this.#demand.arrived();
    this.#onMessage();
  }

  #tagOf(subscription: Subscription, { fields }: ConsumeMessage | GetMessage): string {
    const { deliveryTag } = fields;
    return writeTag({ queue: this.#queue, subscription: subscription.name, deliveryTag });
  }

  /** On take, not on arrival: a few kilobytes of a window may inflate to gigabytes. */
  #decode(
    tag: string,
    { properties, content }: ConsumeMessage | GetMessage,
    allowance: ByteAllowance,
  ): Delivery {
    const { headers } = properties;
    const incoming = { headers, properties, body: content, queue: this.#queue };
    const message = decodeMessage(incoming, this.#options.maxMessageBytes);
    const bytes = 'body' in message ? message.body.length : content.length;
    this.#messageSize.note(bytes);
    allowance.spend(bytes);
    return { tag, message };
  }
}

/** A message that was not taken yet. */
interface Buffered {
  readonly tag: string;
  /** As received, not decoded yet. */
  readonly message: ConsumeMessage;
  /** The one it came through. */
  readonly window: Window;
  readonly bytes: number;
  readonly at: number;
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
  const first = tag.indexOf(' ');
  const second = tag.indexOf(' ', first + 1);
  return {
    subscription: tag.slice(0, first),
    deliveryTag: Number(tag.slice(first + 1, second)),
    queue: tag.slice(second + 1),
  };
}
