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
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import { CONTROL_EXCHANGE, EVENT_EXCHANGE, REPLY_EXCHANGE } from '../../wire/celery-names.ts';
import { lost } from './rabbitmq-errors.ts';
import { RabbitLink, type OpenLink } from './rabbitmq-link.ts';
import { ensureExchange, type ExchangeShape } from './topology.ts';

/** As Celery declares them. */
const SHAPES: Readonly<Record<string, ExchangeShape>> = {
  [CONTROL_EXCHANGE]: { type: 'fanout', durable: false },
  [REPLY_EXCHANGE]: { type: 'direct', durable: false },
  [EVENT_EXCHANGE]: { type: 'topic', durable: true },
};

/** As Celery's `control_queue_ttl`: what a process that stood still has missed for so long is nobody's wish any more. */
const REQUEST_TTL_MS = 300_000;
/** A mailbox that cannot be had (no permission) is tried again, not hammered. */
const RELISTEN: BackoffPolicy = { baseMs: 100, maxMs: 10_000, jitter: 'full' };
/** How long the last words may take to be written. */
const GOODBYE_MS = 1_000;

interface Outgoing {
  readonly link: OpenLink;
  readonly opening: Promise<Channel>;
  isClosed: boolean;
  isFull: boolean;
}

/**
 * Celery's events and remote control on RabbitMQ, on one connection of its own: nothing here can hold up messages. The
 * mailbox belongs to the connection and goes with it; every new one has a new name, so none waits for a dead one to be noticed.
 */
export class RabbitFleet implements Fleet {
  readonly place: FleetPlace;
  readonly #link: RabbitLink;
  readonly #options: FleetOptions;
  readonly #closing = new AbortController();
  /** What does not work at the moment, and was told. */
  readonly #troubles = new Set<keyof Fleet>();
  #outgoing: Outgoing | null = null;

  constructor({ hosts }: RabbitTarget, options: FleetOptions) {
    // The URL is refused where it names no host.
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

  listen(hear: (message: RequestMessage) => void): void {
    void this.#keepListening(hear);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const patience = new AbortController();
    await Promise.race([
      this.#closeOutgoing().then(() => patience.abort()),
      sleep(systemClock, GOODBYE_MS, patience.signal),
    ]);
    await this.#link.close();
  }

  /** By the channel itself: closing the connection would overtake what is still to be written. */
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
      // It would wait in our memory for the end of the alarm.
      if (link.blocked() !== null) return false;
      const outgoing = this.#outgoingOn(link);
      const channel = await outgoing.opening;
      if (outgoing.isClosed || outgoing.isFull) return false;
      const isRoom = channel.publish(exchange, routingKey, Buffer.from(body), {
        contentType: 'application/json',
        contentEncoding: 'utf-8',
        deliveryMode: 1,
        priority: 0,
        headers,
      });
      if (!isRoom) outgoing.isFull = true;
      this.#troubles.delete('tell');
      return true;
    } catch (error) {
      this.#tellTrouble('tell', error);
      return false;
    }
  }

  /** The channel of this connection. Publishing to an exchange that is not there closes it, so they are made sure of first. */
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
    const channel = await model.createChannel();
    channel.on('error', error => this.#tellTrouble('tell', error));
    channel.on('close', () => set({ isClosed: true }));
    channel.on('drain', () => set({ isFull: false }));
    return channel;
  }

  /** One round for every mailbox. */
  async #keepListening(hear: (message: RequestMessage) => void): Promise<void> {
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      try {
        const why = await this.#listenOnce(hear, () => (failures = 0));
        throw lost('channel', why);
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.#tellTrouble('listen', error);
        const waitMs = backoffMs(RELISTEN, failures++, 0.5 + Math.random() / 2);
        await sleep(systemClock, waitMs, this.#closing.signal);
      }
    }
  }

  /** Listens until the mailbox is gone, and says why it is. */
  async #listenOnce(
    hear: (message: RequestMessage) => void,
    onReady: () => void,
  ): Promise<unknown> {
    const { model, reason } = await this.#link.open();
    await ensureExchange(model, CONTROL_EXCHANGE, SHAPES[CONTROL_EXCHANGE] as ExchangeShape);
    const channel = await model.createChannel();
    let [why, isOpen]: [unknown, boolean] = [undefined, true];
    const gone = new Promise<void>(resolve => {
      channel.on('error', error => (why = error));
      channel.on('close', () => {
        isOpen = false;
        resolve();
      });
    });
    const { queue } = await channel.assertQueue(
      `${this.#options.node}.${randomUUID()}.${CONTROL_EXCHANGE}`,
      { durable: false, exclusive: true, autoDelete: true, messageTtl: REQUEST_TTL_MS },
    );
    await channel.bindQueue(queue, CONTROL_EXCHANGE, '');
    const cancelled = new Promise<void>((resolve, reject) => {
      const receive = (message: Parameters<Parameters<Channel['consume']>[1]>[0]): void => {
        if (message === null) return resolve();
        hear({ headers: message.properties.headers, body: message.content });
      };
      channel.consume(queue, receive, { noAck: true, exclusive: true }).then(() => {
        this.#troubles.delete('listen');
        onReady();
      }, reject);
    });
    await Promise.race([gone, cancelled]);
    if (isOpen) await channel.close();
    return why ?? reason() ?? new Error('the mailbox was deleted');
  }

  #tellTrouble(what: keyof Fleet, error: unknown): void {
    if (this.#troubles.has(what) || this.#closing.signal.aborted) return;
    this.#troubles.add(what);
    this.#options.onTrouble(error);
  }
}
