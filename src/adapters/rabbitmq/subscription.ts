import type { Channel, ChannelModel, ConsumeMessage, GetMessage } from 'amqplib';
import { systemClock } from '../../runtime/clock.ts';
import { ANSWER_MS, giveUp, openChannel } from './with-channel.ts';
import { within } from './within.ts';

let count = 0;

/** A live server answers at once; heartbeats end the connection to a dead one. */
const GET_MS = 5_000;
const CANCEL_MS = 5_000;

/** `cancelled`: by the server, because the queue was deleted or is moving. `closed`: the channel is gone. */
export type ConsumingEnd = 'stopped' | 'cancelled' | 'closed';

export interface SubscriptionOptions {
  readonly model: ChannelModel;
  readonly queue: string;
  /** The window of its first consumer; more consumers may follow. */
  readonly first: number;
  /** Called when the channel is gone, whether it was consuming at the time or not. */
  readonly onClose: () => void;
}

/**
 * One channel for one queue. Delivery tags belong to the channel: an answer on another one would close that. A queue
 * that is paused and resumed stays on its channel, so that messages taken before can still be answered.
 */
export class Subscription {
  /** Never reused, not even by the next connection: a late answer finds no channel of this name. */
  readonly name: string = String(++count);
  readonly #model: ChannelModel;
  readonly #queue: string;
  readonly #channel: Channel;
  readonly #first: number;
  readonly #onClose: () => void;
  readonly #held = new Set<number>();
  #consumerTag: string | null = null;
  readonly #furtherTags = new Set<string>();
  #isStopping = false;
  #end: (how: ConsumingEnd) => void = () => undefined;
  #isOpen = true;
  #reason: Error | null = null;

  private constructor(channel: Channel, { model, queue, first, onClose }: SubscriptionOptions) {
    this.#channel = channel;
    this.#model = model;
    this.#queue = queue;
    this.#first = first;
    this.#onClose = onClose;
    channel.on('error', error => {
      this.#reason = error;
    });
    channel.on('close', () => this.#close());
  }

  static async open(options: SubscriptionOptions): Promise<Subscription> {
    const { model, queue } = options;
    return new Subscription(await openChannel(model, queue), options);
  }

  #close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#held.clear();
    this.#onClose();
    this.#end('closed');
  }

  /** Unacknowledged messages. */
  get held(): number {
    return this.#held.size;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The server has agreed to push messages, and this has not ended. */
  get isConsuming(): boolean {
    return this.#isOpen && this.#consumerTag !== null;
  }

  /** The error with which the server closed the channel. */
  get reason(): Error | null {
    return this.#reason;
  }

  /** Consumes until it ends, and returns how it ended. */
  async consume(receive: (message: ConsumeMessage) => void): Promise<ConsumingEnd> {
    this.#isStopping = false;
    const ended = new Promise<ConsumingEnd>(resolve => {
      this.#end = resolve;
    });
    this.#consumerTag = await this.#start(this.#first, message => {
      if (message !== null) return receive(message);
      this.#consumerTag = null;
      this.#end('cancelled');
    });
    // `stop` was called before there was a consumer to cancel.
    if (this.#isStopping) await this.stop();
    return await ended;
  }

  /**
   * An additional consumer of the queue, with its own window: the window of a consumer cannot be changed, and a consumer
   * that replaces another starts with an empty one.
   */
  async widen(window: number, receive: (message: ConsumeMessage) => void): Promise<void> {
    const consumerTag = await this.#start(window, message => {
      // The server cancels all consumers of a queue.
      if (message === null) this.#furtherTags.clear();
      else receive(message);
    });
    this.#furtherTags.add(consumerTag);
    if (this.#isStopping) await this.narrow();
  }

  /** One more consumer of the queue, with its own window. Resolves with a function that ends it. */
  async further(
    window: number,
    receive: (message: ConsumeMessage) => void,
  ): Promise<() => Promise<void>> {
    const consumerTag = await this.#start(window, message => message && receive(message));
    return () => this.#cancel(consumerTag);
  }

  /**
   * A queue whose process hangs does not agree to it, and its channel does nothing else until it does: then another channel
   * is needed, also for the answers that were to go over this one. The server delivers their messages again.
   */
  async #start(window: number, receive: (message: ConsumeMessage | null) => void): Promise<string> {
    const starting = async (): Promise<string> => {
      // Sent together: the window applies to consumers started after it, and another start may be under way.
      const [, { consumerTag }] = await Promise.all([
        this.#channel.prefetch(window),
        this.#channel.consume(this.#queue, message => {
          // It was on its way when this channel was given up.
          if (!this.#isOpen) return;
          if (message !== null) this.#held.add(message.fields.deliveryTag);
          receive(message);
        }),
      ]);
      return consumerTag;
    };
    try {
      return await within(ANSWER_MS, starting(), `has not begun to deliver from ${this.#queue}`);
    } catch (error) {
      if (this.#isOpen) {
        this.#reason = error as Error;
        this.#close();
        giveUp(this.#model, this.#queue, this.#channel);
      }
      throw error;
    }
  }

  /** Polls the next message of the queue; null: there is none, or the server did not answer. */
  get(): Promise<GetMessage | null> {
    const asking = async (): Promise<GetMessage | false> => await this.#channel.get(this.#queue);
    return new Promise(resolve => {
      let isLate = false;
      const cancel = systemClock.timer(GET_MS, () => {
        isLate = true;
        resolve(null);
      });
      const answer = (message: GetMessage | false): void => {
        cancel();
        if (message === false) return resolve(null);
        this.#held.add(message.fields.deliveryTag);
        if (isLate) this.giveBack(message.fields.deliveryTag);
        else resolve(message);
      };
      // The channel is gone; its consumer reports the reason.
      asking().then(answer, () => answer(false));
    });
  }

  /**
   * RabbitMQ answers when the queue has: one whose process hangs would block a worker that is returning messages of all
   * its queues. If it fails, the channel reports the reason.
   */
  async #cancel(consumerTag: string): Promise<void> {
    const cancelling = async (): Promise<unknown> => await this.#channel.cancel(consumerTag);
    await within(CANCEL_MS, cancelling(), 'has not ended a consumer').catch(() => undefined);
  }

  /** Ends all additional consumers; their messages can still be answered. */
  async narrow(): Promise<void> {
    const tags = [...this.#furtherTags];
    this.#furtherTags.clear();
    await Promise.all(tags.map(tag => this.#cancel(tag)));
  }

  /** Ends `consume`; messages on their way still arrive. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const consumerTag = this.#consumerTag;
    this.#consumerTag = null;
    await this.narrow();
    if (consumerTag === null) return;
    await this.#cancel(consumerTag);
    this.#end('stopped');
  }

  /**
   * Once per message: a second answer would close the channel, so it is ignored. One frame acknowledges everything
   * delivered before the first message that is still open.
   */
  acknowledge(deliveryTags: readonly number[]): void {
    const ours = deliveryTags.filter(tag => this.#held.delete(tag));
    // Tags increase, and a set keeps insertion order.
    const [open = Infinity] = this.#held;
    const early = Math.max(...ours.filter(tag => tag < open));
    if (early > 0) this.#send(early, message => this.#channel.ack(message, true));
    for (const tag of ours) if (tag > open) this.#send(tag, message => this.#channel.ack(message));
  }

  giveBack(deliveryTag: number): void {
    if (this.#held.delete(deliveryTag))
      this.#send(deliveryTag, message => this.#channel.nack(message, false, true));
  }

  #send(deliveryTag: number, answer: (message: ConsumeMessage) => void): void {
    try {
      answer({ fields: { deliveryTag } } as ConsumeMessage);
    } catch {
      // The channel is closing: the server redelivers the message, and the ledger recognizes it.
    }
  }

  /** Closes the channel first: closing the connection would overtake answers still to be written. */
  async close(): Promise<void> {
    if (this.#isOpen) await this.#channel.close().catch(() => undefined);
  }
}
