import type { ConfirmChannel, Message } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { replyCode } from './rabbitmq-errors.ts';
import type { Publication } from './frame-writer.ts';
import { publishOn, type Publish } from './publish-frames.ts';
import type { OpenLink } from './rabbitmq-link.ts';

interface Pending {
  readonly id: string;
  readonly publication: Publication;
  readonly settle: (outcome: PublishOutcome) => void;
  returned: string | null;
}

/** Frames that may wait in the channel's buffer before writers are asked to wait: a whole window of a relay. */
const HIGH_WATER_MARK = 4_096;

/**
 * A channel in confirm mode, with what is under way on it. RabbitMQ tells of an unroutable message before it confirms
 * it, so every outcome is known when its confirmation comes.
 */
export class ConfirmedChannel {
  readonly #publish: Publish;
  readonly #link: OpenLink;
  readonly #pending = new Set<Pending>();
  /** By task id, oldest first: a returned message is told by that. */
  readonly #byId = new Map<string, Pending[]>();
  readonly #drained: (() => void)[] = [];
  #isOpen = true;
  #isFull = false;
  #closedBy: Error | null = null;
  #underWayAtClose = 0;

  private constructor(channel: ConfirmChannel, link: OpenLink, onClose: () => void) {
    this.#publish = publishOn(channel);
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

  /** Writes one message; `settle` is called once, when the broker has answered for it. */
  write(id: string, publication: Publication, settle: (outcome: PublishOutcome) => void): void {
    const pending: Pending = { id, publication, settle, returned: null };
    try {
      const hasRoom = this.#publish(publication, error => this.#settle(pending, error));
      if (!hasRoom) this.#isFull = true;
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
    const same = this.#byId.get(id);
    if (same === undefined) this.#byId.set(id, [pending]);
    else same.push(pending);
  }

  #wakeWriters(): void {
    this.#isFull = false;
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  /** Copies of one task may be under way to several places: it is the oldest on this way. */
  #markReturned({ fields, properties }: Message): void {
    const id: unknown = properties.headers?.['id'];
    const { exchange, routingKey, replyText } = fields as typeof fields & { replyText?: string };
    const returned = this.#byId
      .get(String(id))
      ?.find(
        ({ publication, returned: before }) =>
          before === null &&
          publication.exchange === exchange &&
          publication.routingKey === routingKey,
      );
    if (!returned) return;
    const way = `exchange ${JSON.stringify(exchange)}, routing key ${JSON.stringify(routingKey)}`;
    returned.returned = `no queue takes it: ${replyText ?? 'NO_ROUTE'} (${way})`;
  }

  #settle(pending: Pending, error: unknown): void {
    this.#pending.delete(pending);
    const same = this.#byId.get(pending.id) ?? [];
    if (same.length <= 1) this.#byId.delete(pending.id);
    else same.splice(same.indexOf(pending), 1);
    pending.settle(this.#outcome(pending, error));
  }

  #outcome({ returned }: Pending, error: unknown): PublishOutcome {
    if (error === null || error === undefined) {
      return returned === null ? { status: 'confirmed' } : { status: 'refused', error: returned };
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
