import type { ConsumeMessage, GetMessage } from 'amqplib';
import type { Delivery } from '../../broker/broker.ts';
import { AheadBudget, ByteAllowance, MOST_BYTES } from '../../runtime/ahead-budget.ts';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import { lost } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { ConsumerPace } from './consumer-pace.ts';
import { BorrowedWindows } from './borrowed-windows.ts';
import type { SharedWindows } from './shared-windows.ts';
import { Subscription, type ConsumingEnd } from './subscription.ts';
import { ensureQueue, type QueueShape } from './topology.ts';

/** A queue that cannot be consumed (no permission, its node is down) is retried with a backoff. */
const RESUBSCRIBE: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };

/** Messages of an extra window that the worker did not take for this long go back, to a process with a free slot. */
const LATE_MS = 1_000;
/** For the first window, which is no larger than needed: quorum queues count returns. */
const FIRST_LATE_MS = 2_000;
const LOOK_MS = 250;
/** A message that is polled finds a free slot at once: when it is answered in less, its task was short. */
const SHORT_MS = 500;

export interface ConsumerOptions {
  readonly link: RabbitLink;
  readonly shape: QueueShape;
  /** Unacknowledged messages held here. */
  readonly prefetch: number;
  /** Shared with other queues: `prefetch` is then their common limit. */
  readonly windows?: SharedWindows;
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
 *   the queue is empty,│             pause, or no message was taken for long: untaken messages go back;
 *   or tasks are short │               ▼                                      taken ones can still be answered
 *                      └──────────── pulling: `take` gets no more than it asks for, and nothing is pushed
 *
 * While tasks are long, the queue is polled: a message pushed to a process without a free slot waits there although
 * another process may have one, and returning it again and again would use up the delivery limit of a quorum queue.
 */
export class QueueConsumer {
  readonly #queue: string;
  readonly #options: ConsumerOptions;
  readonly #onMessage: () => void;
  readonly #closing = new AbortController();
  readonly #pace: ConsumerPace;
  readonly #budget = new AheadBudget();
  readonly #borrowed: BorrowedWindows | null;
  #buffer: Buffered[] = [];
  #isWanted = false;
  #isPulling = false;
  /** When the messages came that were polled and are not answered yet. */
  readonly #pulled = new Map<number, number>();
  #isWatched = false;
  #subscription: Subscription | null = null;
  #isWorking = false;
  /** When it last consumed; null: never. Heartbeats end a connection that only seems to be open. */
  #consumedAt: number | null = null;

  constructor(queue: string, options: ConsumerOptions, onMessage: () => void) {
    this.#queue = queue;
    this.#options = options;
    this.#onMessage = onMessage;
    this.#pace = new ConsumerPace(options.prefetch);
    this.#borrowed = options.windows ? this.#borrowFrom(options.windows) : null;
  }

  /** Up to `limit` messages that are buffered; when pulling, that are in the queue. */
  take(
    limit: number,
    allowance: ByteAllowance = new ByteAllowance(),
  ): readonly Delivery[] | Promise<readonly Delivery[]> {
    if (this.#isPulling && this.#subscription?.isOpen === true)
      return limit > 0 ? this.#pull(this.#subscription, limit, allowance) : [];
    this.#resume();
    const taken: Delivery[] = [];
    for (const { tag, message } of this.#buffer) {
      if (taken.length >= limit || allowance.isSpent) break;
      taken.push(this.#decode(tag, message, allowance));
    }
    this.#buffer.splice(0, taken.length);
    if (taken.length < limit && this.#buffer.length === 0) this.#borrowed?.look();
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
    const most = Math.min(limit, this.#options.prefetch);
    let message: GetMessage | null = null;
    if (allowance.isSpent) return taken;
    do {
      message = await subscription.get();
      if (message !== null) {
        this.#pulled.set(message.fields.deliveryTag, systemClock.monotonic());
        taken.push(this.#decode(this.#tagOf(subscription, message), message, allowance));
      }
    } while (message !== null && taken.length < most && !allowance.isSpent);
    // The queue is empty, so the next message finds a free slot.
    if (message === null && this.#isPulling) this.#resume();
    return taken;
  }

  #resume(): void {
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
    this.#borrowed?.release(deliveryTags);
    const width = this.#pace.widerBy(ours.length);
    const werePulledAndShort = this.#werePulledAndShort(deliveryTags);
    // Tasks are short: pushed messages do not wait.
    if (this.#isPulling && (width > 0 || werePulledAndShort)) this.#resume();
    else if (width > 0) void this.#widen(width);
  }

  /**
   * Polling a busy server brings so few messages that they look like long tasks by their number, and extra windows may have
   * to rest for minutes: so the time that each message took decides whether the first window is opened again.
   */
  #werePulledAndShort(deliveryTags: readonly number[]): boolean {
    if (this.#pulled.size === 0) return false;
    const since = systemClock.monotonic() - SHORT_MS;
    // The oldest comes first: one that runs for long keeps a slot that others would wait for.
    const [oldest = Infinity] = this.#pulled.values();
    return deliveryTags.filter(tag => this.#pulled.delete(tag)).length > 0 && oldest > since;
  }

  giveBack({ subscription, deliveryTag }: TagParts): void {
    if (this.#subscription?.name !== subscription) return;
    this.#subscription.giveBack(deliveryTag);
    this.#pulled.delete(deliveryTag);
    this.#borrowed?.release([deliveryTag]);
  }

  /** Stops consuming and returns messages that were not taken. The next `take` pulls. */
  async pause(): Promise<void> {
    this.#isWanted = false;
    this.#isPulling = true;
    this.#pulled.clear();
    // Cancel first: otherwise the server would push them straight back to us.
    await Promise.all([this.#subscription?.stop(), this.#borrowed?.shutAll()]);
    this.#pace.narrow();
    for (const { tag } of this.#buffer.splice(0)) this.giveBack(readTag(tag));
  }

  /** While tasks are short, extra windows are open, so that the next batch is here when this one is done. */
  async #widen(width: number): Promise<void> {
    const subscription = this.#subscription;
    const window = this.#budget.allows(this.#share * width);
    if (!this.#isWanted || !subscription?.isOpen || window === 0) return;
    this.#pace.widen(width);
    this.#watch();
    try {
      await subscription.widen(window, message => this.#receive(subscription, message, true));
      // It was shut while it was being opened.
      if (!this.#pace.isWide) await subscription.narrow();
    } catch {
      // The channel is gone; its first consumer reports the reason.
      this.#pace.narrow();
    }
  }

  /** Checks the buffer periodically while it is not empty. */
  #watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    const setAt = systemClock.monotonic();
    const timer = setTimeout(() => {
      this.#isWatched = false;
      if (this.#buffer.length === 0 && !this.#pace.isWide) return;
      // This process stood still, so the worker could not take anything.
      const isStalled = systemClock.monotonic() - setAt > 2 * LOOK_MS;
      if (!isStalled) this.#look();
      this.#watch();
    }, LOOK_MS);
    timer.unref();
  }

  #look(): void {
    const subscription = this.#subscription;
    if (subscription === null || !this.#isWanted) return;
    if (this.#pace.isWide) {
      if (this.#isLate(LATE_MS) || this.#isHeavy()) void this.#narrow(subscription);
    } else if (this.#isLate(FIRST_LATE_MS)) void this.pause();
  }

  #isLate(lateMs: number): boolean {
    const [first] = this.#buffer;
    return first !== undefined && systemClock.monotonic() - first.at > lateMs;
  }

  #isHeavy(): boolean {
    return this.#buffer.reduce((sum, { bytes }) => sum + bytes, 0) > MOST_BYTES;
  }

  /** The queue's quota if all queues were equal. */
  get #share(): number {
    return this.#options.windows?.share ?? this.#options.prefetch;
  }

  /** Tasks got longer, or larger: return the messages of extra windows to other processes. */
  async #narrow(subscription: Subscription): Promise<void> {
    this.#pace.narrowLate();
    await subscription.narrow();
    const extra = this.#buffer.filter(({ isExtra }) => isExtra);
    this.#buffer = this.#buffer.filter(({ isExtra }) => !isExtra);
    for (const { tag } of extra) this.giveBack(readTag(tag));
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
    const { shape, prefetch, windows } = this.#options;
    await ensureQueue(model, this.#queue, shape);
    let subscription = this.#subscription;
    if (!subscription?.isOpen) {
      const first = windows?.step ?? prefetch;
      const onClose = (): void => this.#forget();
      subscription = await Subscription.open({ model, queue: this.#queue, first, onClose });
      this.#subscription = subscription;
    }
    if (!this.#isWanted) return 'stopped';
    const current = subscription;
    const end = await current.consume(message => this.#receive(current, message, false));
    this.#consumedAt = systemClock.monotonic();
    // The server cancels all consumers of a queue; the next iteration starts with the first window only.
    this.#pace.narrow();
    if (current.isOpen) await this.#borrowed?.shutAll();
    return end;
  }

  /**
   * The server redelivers everything from a closed channel, so our copies are void. This also applies while the queue is
   * paused: messages taken earlier occupy windows that other queues wait for.
   */
  #forget(): void {
    this.#buffer = [];
    this.#isPulling = false;
    this.#pulled.clear();
    this.#pace.narrow();
    this.#borrowed?.drop();
  }

  #borrowFrom(windows: SharedWindows): BorrowedWindows {
    return new BorrowedWindows(windows, {
      state: () => {
        const isSubscribed = this.#isWanted && this.#subscription?.isConsuming === true;
        return {
          // Extra windows bring enough messages by themselves.
          isConsuming: isSubscribed && !this.#pace.isWide,
          held: this.#subscription?.held ?? 0,
          untaken: this.#buffer.length,
        };
      },
      open: async (size, onMessage) => {
        const current = this.#subscription;
        if (!current?.isOpen) throw new Error('the channel is gone');
        return await current.further(size, message => {
          onMessage(message.fields.deliveryTag);
          this.#receive(current, message, false);
        });
      },
    });
  }

  #receive(subscription: Subscription, message: ConsumeMessage, isExtra: boolean): void {
    const { deliveryTag } = message.fields;
    // It was on its way when we cancelled.
    if (!this.#isWanted) {
      subscription.giveBack(deliveryTag);
      return this.#borrowed?.release([deliveryTag]);
    }
    const bytes = message.content.length;
    this.#budget.note(bytes);
    const tag = this.#tagOf(subscription, message);
    this.#buffer.push({ tag, message, isExtra, bytes, at: systemClock.monotonic() });
    this.#watch();
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
    this.#budget.note(bytes);
    allowance.spend(bytes);
    return { tag, message };
  }
}

/** A message that was not taken yet. */
interface Buffered {
  readonly tag: string;
  /** As received, not decoded yet. */
  readonly message: ConsumeMessage;
  /** It came through an extra window. */
  readonly isExtra: boolean;
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
