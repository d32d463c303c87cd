import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib';

let count = 0;

/** `cancelled`: by the server, because the queue was deleted or moves. `closed`: the channel is gone. */
export type ConsumingEnd = 'stopped' | 'cancelled' | 'closed';

/**
 * One channel for one queue. Delivery tags are the channel's own: an answer on another one would close that. A queue
 * that is given up and taken up again stays on its channel, so that what was taken before can still be answered.
 */
export class Subscription {
  /** Never used again, also not by the next connection: a late answer finds no channel of its name. */
  readonly name: string = String(++count);
  readonly #channel: Channel;
  readonly #first: number;
  readonly #held = new Set<number>();
  #consumerTag: string | null = null;
  readonly #furtherTags = new Set<string>();
  #isStopping = false;
  #end: (how: ConsumingEnd) => void = () => undefined;
  #isOpen = true;
  #reason: Error | null = null;

  private constructor(channel: Channel, first: number, onClose: () => void) {
    this.#channel = channel;
    this.#first = first;
    channel.on('error', error => {
      this.#reason = error;
    });
    channel.on('close', () => {
      this.#isOpen = false;
      this.#held.clear();
      onClose();
      this.#end('closed');
    });
  }

  /**
   * @param first the window of its first consumer, where further ones may come
   * @param onClose told when the channel is gone, whether anything was consumed on it at the time or not
   */
  static async open(
    model: ChannelModel,
    first: number,
    onClose: () => void,
  ): Promise<Subscription> {
    return new Subscription(await model.createChannel(), first, onClose);
  }

  /** Messages without an answer. */
  get held(): number {
    return this.#held.size;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The server has agreed to push messages, and nothing has ended that. */
  get isConsuming(): boolean {
    return this.#isOpen && this.#consumerTag !== null;
  }

  /** What the server closed the channel with. */
  get reason(): Error | null {
    return this.#reason;
  }

  /** Consumes until it ends, and says how. */
  async consume(queue: string, receive: (message: ConsumeMessage) => void): Promise<ConsumingEnd> {
    this.#isStopping = false;
    const ended = new Promise<ConsumingEnd>(resolve => {
      this.#end = resolve;
    });
    this.#consumerTag = await this.#start(queue, this.#first, message => {
      if (message !== null) return receive(message);
      this.#consumerTag = null;
      this.#end('cancelled');
    });
    // Asked to stop before there was anything to stop.
    if (this.#isStopping) await this.stop();
    return await ended;
  }

  /**
   * A further consumer of the queue, with a window of its own: that of a consumer cannot be changed, and one that takes
   * the place of another begins with an empty window.
   */
  async widen(
    queue: string,
    window: number,
    receive: (message: ConsumeMessage) => void,
  ): Promise<void> {
    const consumerTag = await this.#start(queue, window, message => {
      // The server cancels all consumers of a queue.
      if (message === null) this.#furtherTags.clear();
      else receive(message);
    });
    this.#furtherTags.add(consumerTag);
    if (this.#isStopping) await this.narrow();
  }

  /** One more consumer of the queue, with a window of its own. Resolves with what ends it. */
  async further(
    queue: string,
    window: number,
    receive: (message: ConsumeMessage) => void,
  ): Promise<() => Promise<void>> {
    const consumerTag = await this.#start(queue, window, message => message && receive(message));
    return async () => void (await this.#channel.cancel(consumerTag).catch(() => undefined));
  }

  async #start(
    queue: string,
    window: number,
    receive: (message: ConsumeMessage | null) => void,
  ): Promise<string> {
    // In one breath: the window is that of the consumers that come after it, and another may be on its way.
    const [, { consumerTag }] = await Promise.all([
      this.#channel.prefetch(window),
      this.#channel.consume(queue, message => {
        if (message !== null) this.#held.add(message.fields.deliveryTag);
        receive(message);
      }),
    ]);
    return consumerTag;
  }

  /** Ends all further consumers; what was delivered to them can still be answered. */
  async narrow(): Promise<void> {
    const tags = [...this.#furtherTags];
    this.#furtherTags.clear();
    await Promise.all(tags.map(tag => this.#channel.cancel(tag).catch(() => undefined)));
  }

  /** Ends `consume`; what is on its way still comes. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const consumerTag = this.#consumerTag;
    this.#consumerTag = null;
    await this.narrow();
    if (consumerTag === null) return;
    await this.#channel.cancel(consumerTag).catch(() => undefined);
    this.#end('stopped');
  }

  /**
   * Once for every message: a second answer would close the channel, and is ignored. One frame answers for all that were
   * delivered before the first that has no answer yet.
   */
  acknowledge(deliveryTags: readonly number[]): void {
    const ours = deliveryTags.filter(tag => this.#held.delete(tag));
    // Tags grow, and a set keeps the order in which they came.
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
      // The channel is just closing: the server delivers the message again, and the ledger answers for it.
    }
  }

  /** By the channel itself: closing the connection would overtake answers that are still to be written. */
  async close(): Promise<void> {
    if (this.#isOpen) await this.#channel.close().catch(() => undefined);
  }
}
