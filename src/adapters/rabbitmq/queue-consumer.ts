import type { ConsumeMessage } from 'amqplib';
import type { Delivery } from '../../broker/broker.ts';
import { AheadBudget, MOST_BYTES } from '../../runtime/ahead-budget.ts';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import { lost } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { ConsumerPace, LATE_MS } from './consumer-pace.ts';
import { BorrowedWindows } from './borrowed-windows.ts';
import type { SharedWindows } from './shared-windows.ts';
import { Subscription, type ConsumingEnd } from './subscription.ts';
import { ensureQueue, type QueueShape } from './topology.ts';

/** A queue that cannot be consumed (no permission, its node is down) is tried again, not hammered. */
const RESUBSCRIBE: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };

export interface ConsumerOptions {
  readonly link: RabbitLink;
  readonly shape: QueueShape;
  /** Messages held here without an answer. */
  readonly prefetch: number;
  /** Held together with other queues: `prefetch` is then what all of them may hold. */
  readonly windows?: SharedWindows;
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
  readonly #pace: ConsumerPace;
  readonly #budget = new AheadBudget();
  readonly #borrowed: BorrowedWindows | null;
  #buffer: Buffered[] = [];
  #isWanted = false;
  #subscription: Subscription | null = null;
  #isWorking = false;
  /** When it last consumed; null: never. Heartbeats end a connection that is only believed to be there. */
  #consumedAt: number | null = null;

  constructor(queue: string, options: ConsumerOptions, onMessage: () => void) {
    this.#queue = queue;
    this.#options = options;
    this.#onMessage = onMessage;
    this.#pace = new ConsumerPace(options.prefetch);
    this.#borrowed = options.windows ? this.#borrowFrom(options.windows) : null;
  }

  /** Up to `limit` messages that are here already. */
  take(limit: number): readonly Delivery[] {
    this.#resume();
    const taken = this.#buffer.splice(0, limit).map(({ delivery }) => delivery);
    if (taken.length < limit) this.#borrowed?.look();
    return taken;
  }

  /** How long it has not been consuming; null: it never was. */
  get silentMs(): number | null {
    if (this.#subscription?.isConsuming === true) return 0;
    return this.#consumedAt === null ? null : systemClock.monotonic() - this.#consumedAt;
  }

  #resume(): void {
    if (this.#closing.signal.aborted) return;
    this.#isWanted = true;
    if (!this.#isWorking) void this.#work();
  }

  /** Of a channel that is gone nothing can be answered: the server has delivered its messages again. */
  acknowledge(tags: readonly TagParts[]): void {
    const ours = tags.filter(({ subscription }) => subscription === this.#subscription?.name);
    const deliveryTags = ours.map(({ deliveryTag }) => deliveryTag);
    this.#subscription?.acknowledge(deliveryTags);
    this.#borrowed?.release(deliveryTags);
    const width = this.#pace.widerBy(ours.length);
    if (width > 0) void this.#widen(width);
  }

  giveBack({ subscription, deliveryTag }: TagParts): void {
    if (this.#subscription?.name !== subscription) return;
    this.#subscription.giveBack(deliveryTag);
    this.#borrowed?.release([deliveryTag]);
  }

  /** Stops consuming and gives back what nobody has taken. The next `take` goes on. */
  async pause(): Promise<void> {
    this.#isWanted = false;
    // Cancelled first: otherwise the server would give them straight back to us.
    await Promise.all([this.#subscription?.stop(), this.#borrowed?.shutAll()]);
    this.#pace.narrow();
    for (const { delivery } of this.#buffer.splice(0)) this.giveBack(readTag(delivery.tag));
  }

  /** While tasks are short further windows are open, so that the next batch is here when this one is done. */
  async #widen(width: number): Promise<void> {
    const subscription = this.#subscription;
    const window = this.#budget.allows(this.#share * width);
    if (!this.#isWanted || !subscription?.isOpen || window === 0) return;
    const isFirst = !this.#pace.isWide;
    this.#pace.widen(width);
    const lookAgain = (): void => {
      const timer = setTimeout(() => {
        if (!this.#pace.isWide || this.#subscription !== subscription) return;
        if (this.#isLate() || this.#isHeavy()) void this.#narrow(subscription);
        else lookAgain();
      }, LATE_MS / 4);
      timer.unref();
    };
    if (isFirst) lookAgain();
    try {
      await subscription.widen(this.#queue, window, message =>
        this.#receive(subscription, message, true),
      );
      // Shut again while it was being opened.
      if (!this.#pace.isWide) await subscription.narrow();
    } catch {
      // The channel is gone: its first consumer says why.
      this.#pace.narrow();
    }
  }

  #isLate(): boolean {
    const [first] = this.#buffer;
    return first !== undefined && systemClock.monotonic() - first.at > LATE_MS;
  }

  #isHeavy(): boolean {
    return this.#buffer.reduce((sum, { bytes }) => sum + bytes, 0) > MOST_BYTES;
  }

  /** What the queue would have if all were alike. */
  get #share(): number {
    return this.#options.windows?.share ?? this.#options.prefetch;
  }

  /** Tasks are longer than they were, or larger: what further windows hold belongs to others. */
  async #narrow(subscription: Subscription): Promise<void> {
    this.#pace.narrow();
    await subscription.narrow();
    const extra = this.#buffer.filter(({ isExtra }) => isExtra);
    this.#buffer = this.#buffer.filter(({ isExtra }) => !isExtra);
    for (const { delivery } of extra) this.giveBack(readTag(delivery.tag));
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
    const { shape, prefetch, windows } = this.#options;
    await ensureQueue(model, this.#queue, shape);
    let subscription = this.#subscription;
    if (!subscription?.isOpen) {
      const first = windows?.step ?? prefetch;
      subscription = await Subscription.open(model, first, () => this.#forget());
      this.#subscription = subscription;
    }
    if (!this.#isWanted) return 'stopped';
    const current = subscription;
    const end = await current.consume(this.#queue, message =>
      this.#receive(current, message, false),
    );
    this.#consumedAt = systemClock.monotonic();
    // The server cancels all consumers of a queue; the next round begins with the first window alone.
    this.#pace.narrow();
    if (current.isOpen) await this.#borrowed?.shutAll();
    return end;
  }

  /**
   * Everything on a channel that is gone is delivered again: our copies are none any more. Also while the queue is paused:
   * what was taken from it before is held in windows that others wait for.
   */
  #forget(): void {
    this.#buffer = [];
    this.#pace.narrow();
    this.#borrowed?.drop();
  }

  #borrowFrom(windows: SharedWindows): BorrowedWindows {
    return new BorrowedWindows(windows, {
      state: () => {
        const isSubscribed = this.#isWanted && this.#subscription?.isConsuming === true;
        return {
          // Further windows bring enough by themselves.
          isConsuming: isSubscribed && !this.#pace.isWide,
          held: this.#subscription?.held ?? 0,
          untaken: this.#buffer.length,
        };
      },
      open: async (size, onMessage) => {
        const current = this.#subscription;
        if (!current?.isOpen) throw new Error('the channel is gone');
        return await current.further(this.#queue, size, message => {
          onMessage(message.fields.deliveryTag);
          this.#receive(current, message, false);
        });
      },
    });
  }

  #receive(subscription: Subscription, message: ConsumeMessage, isExtra: boolean): void {
    const { fields, properties, content } = message;
    const { deliveryTag } = fields;
    // It has crossed our cancelling on the way.
    if (!this.#isWanted) {
      subscription.giveBack(deliveryTag);
      return this.#borrowed?.release([deliveryTag]);
    }
    const { headers } = properties;
    const delivery = {
      tag: writeTag({ queue: this.#queue, subscription: subscription.name, deliveryTag }),
      message: decodeMessage({ headers, properties, body: content, queue: this.#queue }),
    };
    this.#budget.note(content.length);
    const bytes = content.length;
    this.#buffer.push({ delivery, isExtra, bytes, at: systemClock.monotonic() });
    this.#onMessage();
  }
}

/** A message that nobody has taken yet. */
interface Buffered {
  readonly delivery: Delivery;
  /** It came through a further window. */
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
