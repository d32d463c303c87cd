import type { ConfirmChannel, Message } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { replyCode } from './rabbitmq-errors.ts';
import { type MessageSink, type Publication, publishOn } from './frame-writer.ts';
import type { OpenLink } from './rabbitmq-link.ts';

/**
 * What we need to know about a message until the broker answers. Not the message itself: many are unconfirmed at a time.
 */
interface Pending {
  readonly id: string;
  readonly exchange: string;
  readonly routingKey: string;
  readonly settle: (outcome: PublishOutcome) => void;
  returned: string | null;
}

/**
 * Buffers (64 KiB, or one message each) that may queue up before writers have to wait; a relay's window fills about a
 * dozen.
 */
const HIGH_WATER_MARK = 256;

const CONFIRMED: PublishOutcome = Object.freeze({ status: 'confirmed' });

/**
 * A channel in confirm mode and its unconfirmed messages. RabbitMQ returns an unroutable message before it confirms it,
 * so the outcome is known when the confirmation arrives.
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
    // Runs before the channel's own listener fails everything that is unconfirmed.
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

  /** `onClose` runs before any unconfirmed message is settled. */
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

  /** Resolves when a full buffer has space again, or the channel is gone. */
  drained(): Promise<void> {
    return new Promise(resolve => void this.#drained.push(resolve));
  }

  /**
   * Writes one message. `settle` is called once, when the broker has answered. Everything written in one turn of the
   * event loop is sent together.
   */
  write(id: string, publication: Publication, settle: (outcome: PublishOutcome) => void): void {
    const { exchange, routingKey } = publication;
    const pending: Pending = { id, exchange, routingKey, settle, returned: null };
    try {
      this.#sink.add(publication, error => this.#settle(pending, error));
    } catch (error) {
      // Nothing was written. A message that amqplib cannot encode is at fault itself; a closed channel is not its fault.
      const text = error instanceof Error ? error.message : String(error);
      return settle(
        this.#isOpen
          ? { status: 'refused', error: `it cannot be encoded: ${text}` }
          : { status: 'unavailable', error: text },
      );
    }
    this.#pending.add(pending);
    this.#link.pulse.written();
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

  /** Copies of one task may be in flight on several routes: marks the oldest on this route. */
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
    this.#link.pulse.answered();
    pending.settle(this.#outcome(pending, error));
  }

  #outcome({ returned }: Pending, error: unknown): PublishOutcome {
    if (error === null || error === undefined) {
      return returned === null ? CONFIRMED : { status: 'refused', error: returned };
    }
    if (this.#isOpen) return { status: 'refused', error: 'the broker could not take it (nack)' };
    return this.#outcomeOfClose();
  }

  /** The server closes a channel, or reports a frame error, because of what we sent on it. Anything else is an outage. */
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
