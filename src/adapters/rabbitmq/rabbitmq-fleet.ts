import { randomUUID } from 'node:crypto';
import type { Channel } from 'amqplib';
import type {
  AnswerMessage,
  EventMessage,
  Fleet,
  FleetOptions,
  FleetPlace,
  RequestMessage,
} from '../../broker/fleet.ts';
import type { RabbitHost } from '../../config/amqp-url.ts';
import type { RabbitTarget } from '../../config/broker-target.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { CONTROL_EXCHANGE, EVENT_EXCHANGE, REPLY_EXCHANGE } from '../../wire/headers.ts';
import { toDriverTable } from './field-table.ts';
import { lost } from './rabbitmq-errors.ts';
import { type OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { CONTROL_SHAPE, type ExchangeShape, ensureExchange } from './topology.ts';
import { ANSWER_MS, giveUp, openChannel, within } from './with-channel.ts';

/** As Celery declares them. */
const SHAPES: Readonly<Record<string, ExchangeShape>> = {
  [CONTROL_EXCHANGE]: CONTROL_SHAPE,
  [REPLY_EXCHANGE]: { type: 'direct', durable: false },
  [EVENT_EXCHANGE]: { type: 'topic', durable: true },
};

/** As Celery's `control_queue_ttl`: a request that a stalled process has missed for this long is out of date. */
const REQUEST_TTL_MS = 300_000;
/** A mailbox that cannot be created (no permission) is retried with a backoff. */
const RELISTEN: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };
/** How long the last messages may take to be written. */
const CLOSE_MS = 1_000;

type Receive = Parameters<Channel['consume']>[1];

interface Outgoing {
  readonly link: OpenLink;
  readonly opening: Promise<Channel>;
  isClosed: boolean;
  isFull: boolean;
}

/**
 * Celery's events and remote control on RabbitMQ, on a separate connection: nothing here can delay task messages. The
 * mailbox belongs to the connection and disappears with it. Each one has a new name, so that it need not wait until the
 * server notices that the old connection is dead.
 */
export class RabbitFleet implements Fleet {
  readonly place: FleetPlace;
  readonly #link: RabbitLink;
  readonly #options: FleetOptions;
  readonly #closing = new AbortController();
  /** What does not work at the moment, and was reported. */
  readonly #troubles = new Set<keyof Fleet>();
  #outgoing: Outgoing | null = null;

  constructor({ hosts }: RabbitTarget, options: FleetOptions) {
    // Config refuses a URL without a host.
    const { hostname, port, username, vhost, isTls } = hosts[0] as RabbitHost;
    this.place = {
      transport: 'amqp',
      hostname,
      port,
      userid: username,
      virtualHost: vhost,
      isTls,
    };
    this.#link = new RabbitLink(hosts, `fleet ${options.node}`, { onBlocked: () => undefined });
    this.#options = options;
  }

  async tell({ routingKey, headers, body }: EventMessage): Promise<boolean> {
    return await this.#publish(EVENT_EXCHANGE, routingKey, { headers, body });
  }

  async answer({ routingKey, headers, body }: AnswerMessage): Promise<void> {
    await this.#publish(REPLY_EXCHANGE, routingKey, { headers, body });
  }

  listen(onRequest: (message: RequestMessage) => void): void {
    void this.#keepListening(onRequest);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const timeout = new AbortController();
    await Promise.race([
      this.#closeOutgoing().then(() => timeout.abort()),
      sleep(systemClock, CLOSE_MS, timeout.signal),
    ]);
    await this.#link.close();
  }

  /** Closes the channel first: closing the connection would overtake messages still to be written. */
  async #closeOutgoing(): Promise<void> {
    const outgoing = this.#outgoing;
    if (outgoing === null || outgoing.isClosed) return;
    await outgoing.opening.then(channel => channel.close()).catch(() => undefined);
  }

  async #publish(
    exchange: string,
    routingKey: string,
    { headers, body }: Pick<EventMessage, 'headers' | 'body'>,
  ): Promise<boolean> {
    try {
      const link = await this.#link.open();
      // It would stay in our memory until the alarm ends.
      if (link.blocked() !== null) return false;
      const outgoing = this.#outgoingOn(link);
      const channel = await outgoing.opening;
      if (outgoing.isClosed || outgoing.isFull) return false;
      const isRoom = channel.publish(exchange, routingKey, Buffer.from(body), {
        contentType: 'application/json',
        contentEncoding: 'utf-8',
        deliveryMode: 1,
        priority: 0,
        headers: toDriverTable(headers),
      });
      if (!isRoom) outgoing.isFull = true;
      this.#troubles.delete('tell');
      return true;
    } catch (error) {
      this.#reportTrouble('tell', error);
      return false;
    }
  }

  /** The channel of this connection. Publishing to a missing exchange closes it, so the exchanges are ensured first. */
  #outgoingOn(link: OpenLink): Outgoing {
    const known = this.#outgoing;
    if (known?.link === link && !known.isClosed) return known;
    const made: Outgoing = {
      link,
      opening: this.#openOutgoing(link, change => void Object.assign(made, change)),
      isClosed: false,
      isFull: false,
    };
    made.opening.catch(() => (made.isClosed = true));
    this.#outgoing = made;
    return made;
  }

  async #openOutgoing(
    { model }: OpenLink,
    set: (change: Partial<Outgoing>) => void,
  ): Promise<Channel> {
    for (const exchange of [EVENT_EXCHANGE, REPLY_EXCHANGE])
      await ensureExchange(model, exchange, SHAPES[exchange] as ExchangeShape);
    const channel = await openChannel(model, EVENT_EXCHANGE);
    channel.on('error', error => this.#reportTrouble('tell', error));
    channel.on('close', () => set({ isClosed: true }));
    channel.on('drain', () => set({ isFull: false }));
    return channel;
  }

  /** One iteration per mailbox. */
  async #keepListening(onRequest: (message: RequestMessage) => void): Promise<void> {
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      try {
        const why = await this.#listenOnce(onRequest, () => (failures = 0));
        throw lost('channel', why);
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.#reportTrouble('listen', error);
        const waitMs = backoffMs(RELISTEN, failures++, 0.5 + Math.random() / 2);
        await sleep(systemClock, waitMs, this.#closing.signal);
      }
    }
  }

  /** Listens until the mailbox is gone, and returns the reason. */
  async #listenOnce(
    onRequest: (message: RequestMessage) => void,
    onReady: () => void,
  ): Promise<unknown> {
    const { model, reason } = await this.#link.open();
    await ensureExchange(model, CONTROL_EXCHANGE, SHAPES[CONTROL_EXCHANGE] as ExchangeShape);
    const channel = await openChannel(model, CONTROL_EXCHANGE);
    let [why, isOpen]: [unknown, boolean] = [undefined, true];
    const gone = new Promise<void>(resolve => {
      channel.on('error', error => (why = error));
      channel.on('close', () => {
        isOpen = false;
        resolve();
      });
    });
    let cancel!: () => void;
    const cancelled = new Promise<void>(resolve => (cancel = resolve));
    const receive: Receive = message => {
      if (message === null) return cancel();
      const { content: body, properties } = message;
      onRequest({ bytes: body.length, read: () => ({ headers: properties.headers, body }) });
    };
    try {
      await within(ANSWER_MS, this.#openMailbox(channel, receive), 'has opened no mailbox');
      this.#troubles.delete('listen');
      onReady();
      await Promise.race([gone, cancelled]);
    } finally {
      if (isOpen) giveUp(model, CONTROL_EXCHANGE, channel);
    }
    return why ?? reason() ?? new Error('the mailbox was deleted');
  }

  async #openMailbox(channel: Channel, receive: Receive): Promise<void> {
    const { queue } = await channel.assertQueue(
      `${this.#options.node}.${randomUUID()}.${CONTROL_EXCHANGE}`,
      { durable: false, exclusive: true, autoDelete: true, messageTtl: REQUEST_TTL_MS },
    );
    await channel.bindQueue(queue, CONTROL_EXCHANGE, '');
    await channel.consume(queue, receive, { noAck: true, exclusive: true });
  }

  #reportTrouble(what: keyof Fleet, error: unknown): void {
    if (this.#troubles.has(what) || this.#closing.signal.aborted) return;
    this.#troubles.add(what);
    this.#options.onTrouble(error);
  }
}
