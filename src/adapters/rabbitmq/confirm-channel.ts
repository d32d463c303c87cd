import type { ConfirmChannel, Message } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { replyCode } from './rabbitmq-errors.ts';
import type { Publication } from './frame-writer.ts';
import { publishOn, type MessageSink } from './publish-frames.ts';
import type { OpenLink } from './rabbitmq-link.ts';

/** What must be known of a message until it is answered for. Not the message: many are under way for a while. */
interface Pending {
  readonly id: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly settle: (outcome: PublishOutcome) => void;
  returned: string | null;
}

/** Buffers of 64 KiB, or of one message, that may wait before writers are asked to wait: a window of a relay is a dozen. */
const HIGH_WATER_MARK = 256;

const CONFIRMED: PublishOutcome = Object.freeze({ status: 'confirmed' });

/**
 * A channel in confirm mode, with what is under way on it. RabbitMQ tells of an unroutable message before it confirms
 * it, so every outcome is known when its confirmation comes.
 */
export class ConfirmedChannel {
  readonly #sink: MessageSink;
  readonly #link: OpenLink;
  /** Oldest first. */
  readonly #pending = new Set<Pending>();
  readonly #drained: (() => void)[] = [];
  #isOpen = true;
  #isFull = false;
  #isFlushing = false;
  #closedBy: Error | null = null;
  #underWayAtClose = 0;

  private constructor(channel: ConfirmChannel, link: OpenLink, onClose: () => void) {
    this.#sink = publishOn(channel);
    this.#link = link;
    channel.on('return', message => this.#markReturned(message));
    channel.on('drain', () => this.#wakeWriters());
    // Told before the channel's own listener answers all that is unconfirmed.
    channel.on('error', error => {
      this.#closedBy = error;
    });
    channel.prependListener('close', () => {
      this.#isOpen = false;
      this.#underWayAtClose = this.#pending.size;
      this.#wakeWriters();
      onClose();
    });
  }

  /** `onClose` is told before anything that was under way. */
  static async open(link: OpenLink, onClose: () => void): Promise<ConfirmedChannel> {
    const channel = await link.model.createConfirmChannel({ highWaterMark: HIGH_WATER_MARK });
    return new ConfirmedChannel(channel, link, onClose);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Messages written and not confirmed. */
  get underWay(): number {
    return this.#pending.size;
  }

  get isFull(): boolean {
    return this.#isFull && this.#isOpen;
  }

  /** Resolves when a full buffer has room again, or the channel is gone. */
  drained(): Promise<void> {
    return new Promise(resolve => void this.#drained.push(resolve));
  }

  /**
   * Writes one message; `settle` is called once, when the broker has answered for it. What is written in one turn of the
   * process goes out together.
   */
  write(id: string, publication: Publication, settle: (outcome: PublishOutcome) => void): void {
    const { exchange, routingKey } = publication;
    const pending: Pending = { id, exchange, routingKey, settle, returned: null };
    try {
      this.#sink.add(publication, error => this.#settle(pending, error));
    } catch (error) {
      // Nothing was written: what amqplib cannot encode is the message's own fault, a closed channel is not.
      const text = error instanceof Error ? error.message : String(error);
      return settle(
        this.#isOpen
          ? { status: 'refused', error: `it cannot be encoded: ${text}` }
          : { status: 'unavailable', error: text },
      );
    }
    this.#pending.add(pending);
    if (this.#sink.hasEnough) this.#flush();
    else if (!this.#isFlushing) {
      this.#isFlushing = true;
      queueMicrotask(() => this.#flush());
    }
  }

  #flush(): void {
    this.#isFlushing = false;
    if (!this.#sink.flush()) this.#isFull = true;
  }

  #wakeWriters(): void {
    this.#isFull = false;
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  /** Copies of one task may be under way to several places: it is the oldest on this way. */
  #markReturned({ fields, properties }: Message): void {
    const id: unknown = properties.headers?.['id'];
    const { exchange, routingKey, replyText } = fields as typeof fields & { replyText?: string };
    const way = `exchange ${JSON.stringify(exchange)}, routing key ${JSON.stringify(routingKey)}`;
    for (const one of this.#pending) {
      if (one.id !== String(id) || one.returned !== null) continue;
      if (one.exchange !== exchange || one.routingKey !== routingKey) continue;
      one.returned = `no queue takes it: ${replyText ?? 'NO_ROUTE'} (${way})`;
      return;
    }
  }

  #settle(pending: Pending, error: unknown): void {
    this.#pending.delete(pending);
    pending.settle(this.#outcome(pending, error));
  }

  #outcome({ returned }: Pending, error: unknown): PublishOutcome {
    if (error === null || error === undefined) {
      return returned === null ? CONFIRMED : { status: 'refused', error: returned };
    }
    if (this.#isOpen) return { status: 'refused', error: 'the broker could not take it (nack)' };
    return this.#outcomeOfClose();
  }

  /** The server closes a channel, or speaks of a broken frame, because of what came on it. Everything else is an outage. */
  #outcomeOfClose(): PublishOutcome {
    const cause = this.#closedBy ?? this.#link.reason();
    const text = cause instanceof Error ? cause.message : 'the connection was lost';
    const code = replyCode(cause);
    const isOfMessage = this.#closedBy !== null || (code !== null && FRAME_ERRORS.has(code));
    if (!isOfMessage) return { status: 'unavailable', error: text };
    return { status: this.#underWayAtClose > 1 ? 'suspect' : 'refused', error: text };
  }
}

/** FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME: something we wrote. */
const FRAME_ERRORS = new Set([501, 502, 505]);
