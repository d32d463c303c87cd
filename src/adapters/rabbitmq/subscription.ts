import type { Channel, ChannelModel, ConsumeMessage, GetMessage } from 'amqplib';
import type { PushWindow } from '../../broker/demand.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { ANSWER_MS, giveUp, openChannel, within } from './with-channel.ts';
import type { PublishOutcome } from '../../broker/broker.ts';

let count = 0;

/** A live server answers at once; heartbeats end the connection to a dead one. */
const GET_MS = 5_000;
const CANCEL_MS = 5_000;

/** `cancelled`: by the server, because the queue was deleted or is moving. `closed`: the channel is gone. */
export type ConsumingEnd = 'stopped' | 'cancelled' | 'closed';

/** A consumer of the queue: its window cannot be changed, and a consumer that replaces another starts with an empty one. */
export class Window implements PushWindow {
  readonly size: number;
  held = 0;
  state: PushWindow['state'] = 'opening';
  /** Empty until it is open. */
  consumerTag = '';

  constructor(size: number) {
    this.size = size;
  }
}

type Receive = (message: ConsumeMessage, window: Window) => void;

export interface SubscriptionOptions {
  readonly model: ChannelModel;
  readonly queue: string;
  /** A window was shut, by us or by the server. */
  readonly onShut: () => void;
  /** The channel is gone, whether it was consuming at the time or not, and all windows with it. */
  readonly onClose: () => void;
}

/**
 * One channel for one queue. Delivery tags belong to the channel: an answer on another one would close that. A queue
 * that is paused and resumed stays on its channel, so that messages taken before can still be answered.
 */
export class Subscription {
  /** Never reused, not even by the next connection: a late answer finds no channel of this name. */
  readonly name: string = String(++count);
  readonly #channel: Channel;
  readonly #options: SubscriptionOptions;
  /** Messages without an answer, by delivery tag, each with the window it came through; null: it was pulled. */
  readonly #held = new Map<number, Window | null>();
  readonly #windows = new Set<Window>();
  #first: Window | null = null;
  #end: (how: ConsumingEnd) => void = () => undefined;
  #isOpen = true;
  #reason: Error | null = null;

  private constructor(channel: Channel, options: SubscriptionOptions) {
    this.#channel = channel;
    this.#options = options;
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
    for (const window of this.#held.values()) if (window) window.held = 0;
    this.#held.clear();
    for (const window of this.#windows) window.state = 'shut';
    this.#windows.clear();
    this.#options.onClose();
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
    return this.#isOpen && this.#first?.state === 'open';
  }

  /** The error with which the server closed the channel. */
  get reason(): Error | null {
    return this.#reason;
  }

  /** Consumes through a first window until that ends, and returns how it ended. */
  async consume(size: number, receive: Receive): Promise<ConsumingEnd> {
    const ended = new Promise<ConsumingEnd>(resolve => {
      this.#end = resolve;
    });
    this.#first = new Window(size);
    await this.#start(this.#first, receive);
    return await ended;
  }

  /** One more window, beside the first. */
  open(size: number, receive: Receive): Window {
    const window = new Window(size);
    // The channel is gone; its first consumer reports the reason.
    this.#start(window, receive).catch(() => this.#isShut(window, 'closed'));
    return window;
  }

  /**
   * A queue whose process hangs does not agree to it, and its channel does nothing else until it does: then another channel
   * is needed, also for the answers that were to go over this one. The server delivers their messages again.
   */
  async #start(window: Window, receive: Receive): Promise<void> {
    const { model, queue } = this.#options;
    this.#windows.add(window);
    const starting = this.#startConsumer(window, receive);
    try {
      window.consumerTag = await within(
        ANSWER_MS,
        starting,
        `has not begun to deliver from ${queue}`,
      );
    } catch (error) {
      if (this.#isOpen) {
        this.#reason = error as Error;
        this.#close();
        giveUp(model, queue, this.#channel);
      }
      throw error;
    }
    if (window.state === 'opening') window.state = 'open';
    // It was told to shut before there was a consumer to cancel.
    else if (window.state === 'shutting') await this.#cancel(window);
  }

  async #startConsumer(window: Window, receive: Receive): Promise<string> {
    // Sent together: the window applies to consumers started after it, and another start may be under way.
    const [, { consumerTag }] = await Promise.all([
      this.#channel.prefetch(window.size),
      this.#channel.consume(this.#options.queue, message => {
        // It was on its way when this channel was given up.
        if (!this.#isOpen) return;
        if (message === null) return this.#isShut(window, 'cancelled');
        window.held += 1;
        this.#held.set(message.fields.deliveryTag, window);
        receive(message, window);
      }),
    ]);
    return consumerTag;
  }

  /** Nothing more comes through these; messages on their way still arrive. */
  async shut(windows: readonly PushWindow[]): Promise<void> {
    const ours = [...this.#windows].filter(window => windows.includes(window));
    await Promise.all(ours.map(window => this.#shut(window)));
  }

  /** Shuts all windows, and ends `consume` by that. */
  async stop(): Promise<void> {
    await this.shut([...this.#windows]);
  }

  async #shut(window: Window): Promise<void> {
    const { state } = window;
    if (state === 'opening' || state === 'open') window.state = 'shutting';
    // A window that is being opened is cancelled when the server has opened it: no caller waits for that.
    if (state === 'open') await this.#cancel(window);
  }

  /**
   * RabbitMQ answers when the queue has: one whose process hangs would block a worker that is returning messages of all
   * its queues. If it fails, the channel reports the reason.
   */
  async #cancel(window: Window): Promise<void> {
    const cancelling = async (): Promise<unknown> => await this.#channel.cancel(window.consumerTag);
    await within(CANCEL_MS, cancelling(), 'has not ended a consumer').catch(() => undefined);
    this.#isShut(window, 'stopped');
  }

  #isShut(window: Window, how: ConsumingEnd): void {
    window.state = 'shut';
    // Without an effect if the channel is gone, or the server was faster.
    if (!this.#windows.delete(window)) return;
    if (window === this.#first) this.#end(how);
    this.#options.onShut();
  }

  /** Polls the next message of the queue; null: there is none, or the server did not answer. */
  get(): Promise<GetMessage | null> {
    const { queue } = this.#options;
    const asking = async (): Promise<GetMessage | false> => await this.#channel.get(queue);
    return new Promise(resolve => {
      let isLate = false;
      const cancel = systemClock.timer(GET_MS, () => {
        isLate = true;
        resolve(null);
      });
      const answer = (message: GetMessage | false): void => {
        cancel();
        if (message === false) return resolve(null);
        this.#held.set(message.fields.deliveryTag, null);
        if (isLate) this.giveBack(message.fields.deliveryTag);
        else resolve(message);
      };
      // The channel is gone; its consumer reports the reason.
      asking().then(answer, () => answer(false));
    });
  }

  /**
   * Once per message: a second answer would close the channel, so it is ignored. One frame acknowledges everything
   * delivered before the first message that is still open.
   */
  acknowledge(deliveryTags: readonly number[]): void {
    const ours = deliveryTags.filter(tag => this.#release(tag));
    // Tags increase, and a map keeps insertion order.
    const [open = Infinity] = this.#held.keys();
    const early = Math.max(...ours.filter(tag => tag < open));
    if (early > 0) this.#send(early, message => this.#channel.ack(message, true));
    for (const tag of ours) if (tag > open) this.#send(tag, message => this.#channel.ack(message));
  }

  giveBack(deliveryTag: number): void {
    if (this.#release(deliveryTag))
      this.#send(deliveryTag, message => this.#channel.nack(message, false, true));
  }

  /** False: it has its answer. */
  #release(deliveryTag: number): boolean {
    const window = this.#held.get(deliveryTag);
    if (window) window.held -= 1;
    return this.#held.delete(deliveryTag);
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

/** Unconfirmed messages on a route not known to answer: half of what RabbitMQ lets run ahead of a queue. */
const MOST_UNPROVEN = 200;
const MOST_UNPROVEN_BYTES = 4 * 1_048_576;
/** A route with messages in flight that was silent for this long is no longer known to answer. */
const SILENT_MS = 1_000;
/** A route with nothing in flight may have died since its last answer. */
const REMEMBERED_MS = 10_000;
/** A bound, because names come from messages. */
const MOST_ROUTES = 1_000;
/** Shorter than any send timeout: a caller that has given up must not have its message written afterwards. */
const TIMEOUT_MS = 5_000;

/** The state of one route: a queue of ours, or an exchange named by the sender. */
export class RouteWindow {
  #unconfirmed = 0;
  #bytes = 0;
  #answeredAt = -Infinity;
  /** Since when messages have been in flight without any answer. */
  #silentSince = 0;
  readonly #waiting = new Set<() => void>();

  get isIdle(): boolean {
    return this.#unconfirmed === 0 && this.#waiting.size === 0;
  }

  /** One message may be written. Reads no clock while few are in flight. */
  get hasRoom(): boolean {
    const isSmall = this.#unconfirmed < MOST_UNPROVEN && this.#bytes < MOST_UNPROVEN_BYTES;
    if (isSmall) return true;
    const now = systemClock.monotonic();
    return now - this.#silentSince < SILENT_MS && now - this.#answeredAt < REMEMBERED_MS;
  }

  written(bytes: number): void {
    if (this.#unconfirmed === 0) this.#silentSince = systemClock.monotonic();
    this.#unconfirmed += 1;
    this.#bytes += bytes;
  }

  settled(bytes: number, { status }: PublishOutcome): void {
    this.#unconfirmed -= 1;
    this.#bytes -= bytes;
    if (status !== 'unavailable') this.#answeredAt = this.#silentSince = systemClock.monotonic();
    for (const wake of this.#waiting) wake();
  }

  /** False: the window was full for longer than a caller may wait. */
  async untilFree(): Promise<boolean> {
    const timeout = new AbortController();
    const wake = (): void => {
      if (this.hasRoom) timeout.abort();
    };
    this.#waiting.add(wake);
    await sleep(systemClock, TIMEOUT_MS, timeout.signal);
    this.#waiting.delete(wake);
    return this.hasRoom;
  }
}

/**
 * Limits the messages in flight on one route. There is no limit while it answers, and a low one before its first answer
 * and after it has stopped: RabbitMQ stops reading from a connection with about four hundred messages for a queue that
 * accepts none. Kept across connections, so that the same queue does not block the next one.
 */
export class RouteWindows {
  readonly #routes = new Map<string, RouteWindow>();

  of(route: string): RouteWindow {
    const known = this.#routes.get(route);
    if (known) return known;
    if (this.#routes.size >= MOST_ROUTES)
      for (const [name, window] of this.#routes) if (window.isIdle) this.#routes.delete(name);
    const made = new RouteWindow();
    this.#routes.set(route, made);
    return made;
  }
}
