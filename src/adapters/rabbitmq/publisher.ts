import type { PublishManner, PublishOutcome } from '../../broker/broker.ts';
import { isOutlastError } from '../../errors/error.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import type { Envelope, EnvelopeOptions } from '../../task/envelope.ts';
import { readOptions } from '../../task/read-options.ts';
import { encodeMessage } from '../../wire/encode-message.ts';
import { ConfirmedChannel } from './confirm-channel.ts';
import { DelayedDelivery, delayedRoute } from './delayed-delivery.ts';
import type { Publication } from './frame-writer.ts';
import { replyCode } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { FewAtOnce, within } from './with-channel.ts';
import { FollowUpQueues } from './follow-up-queues.ts';
import { type RouteWindow, RouteWindows } from './subscription.ts';
import { type QueueShape, ensureQueue, isCeleryQueue } from './topology.ts';

/** Shorter than any send timeout: a caller that has given up must not have its message written afterwards. */
const TIMEOUT_MS = 5_000;
/** A broker that confirms nothing gets no more than this to hold. */
const MOST_UNDER_WAY = 20_000;

type Settle = (outcome: PublishOutcome) => void;

interface Prepared {
  readonly envelope: Envelope;
  readonly options: EnvelopeOptions;
  /** The queue to ensure; null where the sender named an exchange. */
  readonly queue: string | null;
  /** False: the queue name came from outside. */
  readonly mayDeclare: boolean;
  readonly settle: Settle;
  /** It waits at the broker until its time has come. */
  isDelayed: boolean;
}

/** To a queue of ours through the default exchange, or through an exchange named by the sender. */
type Route = 'queue' | 'exchange';

export interface PublisherOptions {
  readonly origin: string;
  readonly onTrouble: (error: unknown) => void;
}

interface ChannelState {
  readonly link: OpenLink;
  readonly opening: Promise<ConfirmedChannel>;
  channel: ConfirmedChannel | null;
  isClosed: boolean;
}

/** Publishes with confirmation, on its own connection: an alarm blocks publishers, and acks on the same connection. */
export class Publisher {
  readonly #link: RabbitLink;
  readonly #shape: QueueShape;
  readonly #origin: string;
  /**
   * By what may close them. Only an exchange named by a sender can be missing or forbidden; a message to one must not
   * take down messages to queues that were ensured.
   */
  readonly #channels = new Map<Route, ChannelState>();
  /** Queues known to exist, by connection. */
  #known: { readonly link: OpenLink; readonly queues: Map<string, Promise<string | null>> } | null =
    null;
  readonly #followUpQueues: FollowUpQueues;
  readonly #delayed: DelayedDelivery | null;

  readonly #finding = new FewAtOnce(8, 2_000);
  readonly #windows = new RouteWindows();

  constructor(link: RabbitLink, shape: QueueShape, { origin, onTrouble }: PublisherOptions) {
    this.#link = link;
    this.#shape = shape;
    this.#origin = origin;
    const { delayedDelivery: type } = shape;
    this.#delayed = type === 'off' ? null : new DelayedDelivery(type, onTrouble);
    this.#followUpQueues = new FollowUpQueues(shape);
  }

  async publish(
    messages: readonly Envelope[],
    { toExisting = false, alsoDeclare = [] }: PublishManner = {},
  ): Promise<readonly PublishOutcome[]> {
    const outcomes: PublishOutcome[] = [];
    await new Promise<void>(resolve => {
      let left = messages.length;
      if (left === 0) resolve();
      const prepared: Prepared[] = [];
      for (const [index, envelope] of messages.entries()) {
        const settle: Settle = outcome => {
          outcomes[index] = outcome;
          if (--left === 0) resolve();
        };
        const one = this.#prepare(envelope, !toExisting, settle);
        if (one !== null) prepared.push(one);
      }
      if (prepared.length > 0) void this.#send(prepared, alsoDeclare);
    });
    return outcomes;
  }

  #prepare(envelope: Envelope, mayDeclare: boolean, settle: Settle): Prepared | null {
    try {
      const options = readOptions(envelope);
      const isOwnRoute = (options.exchange ?? '') !== '';
      const queue = isOwnRoute ? null : envelope.queue;
      return { envelope, options, queue, mayDeclare, settle, isDelayed: false };
    } catch (error) {
      settle(notEncoded(error));
      return null;
    }
  }

  /** Built when it is written: building it earlier and keeping it costs more. */
  #publicationOf({ envelope, options, isDelayed }: Prepared): Publication {
    const { headers, properties, body } = encodeMessage(envelope, this.#origin, options);
    const delayed = isDelayed ? routeOfLater(envelope) : null;
    if (delayed !== null) return { headers, properties, body, ...delayed };
    const { exchange = '', routingKey } = options;
    const key = exchange === '' ? envelope.queue : (routingKey ?? envelope.queue);
    return { headers, properties, body, exchange, routingKey: key };
  }

  async #send(prepared: readonly Prepared[], alsoDeclare: readonly string[]): Promise<void> {
    let begun = 0;
    try {
      const link = await this.#link.open();
      await this.#untilUnblocked(link);
      if (alsoDeclare.length > 0) await this.#followUpQueues.declare(link, alsoDeclare);
      const looking = this.#ensureQueues(link, prepared);
      const refused = await within(TIMEOUT_MS, looking, 'has not reported on a queue');
      for (const item of prepared) {
        const why = item.queue === null ? undefined : refused.get(item.queue);
        if (why !== undefined) {
          begun++;
          item.settle({ status: 'refused', error: why });
          continue;
        }
        item.isDelayed = await this.#mayDelay(link, item);
        const window = this.#windows.of(routeOf(item));
        if (!window.hasRoom && !(await window.untilFree()))
          throw new Error(`${routeOf(item)} has confirmed nothing for a while`);
        // Looked up for each: a faulty message may have closed it, and the rest go on another.
        const state = this.#openChannel(
          link,
          item.queue === null || item.isDelayed ? 'exchange' : 'queue',
        );
        const channel =
          state.channel ?? (await within(TIMEOUT_MS, state.opening, 'has opened no channel'));
        if (channel.underWay >= MOST_UNDER_WAY)
          throw new Error(`the broker has ${channel.underWay} messages to confirm`);
        begun++;
        this.#write(channel, item, window);
        if (channel.isFull) await within(TIMEOUT_MS, channel.drained(), 'has read nothing');
      }
    } catch (error) {
      for (const { settle } of prepared.slice(begun))
        settle({ status: 'unavailable', error: textOf(error) });
    }
  }

  /** Where Celery would have it wait there: a worker of Celery holds what came too early, and takes nothing else meanwhile. */
  async #mayDelay(link: OpenLink, { queue, envelope }: Prepared): Promise<boolean> {
    if (this.#delayed === null || queue === null || routeOfLater(envelope) === null) return false;
    const reaching = this.#delayed.reach(link.model, queue);
    const reached = await within(TIMEOUT_MS, reaching, 'has delayed nothing').catch(() => null);
    return reached === 'reached';
  }

  #write(channel: ConfirmedChannel, item: Prepared, window: RouteWindow): void {
    let publication: Publication;
    try {
      publication = this.#publicationOf(item);
    } catch (error) {
      return item.settle(notEncoded(error));
    }
    const { length } = publication.body;
    const settle = this.#watchRoute(item);
    window.written(length);
    channel.write(item.envelope.id, publication, outcome => {
      window.settled(length, outcome);
      settle(outcome);
    });
  }

  /** A known queue that no longer takes messages was deleted: the next attempt declares it again. */
  #watchRoute({ queue, settle }: Prepared): Settle {
    if (queue === null) return settle;
    return outcome => {
      if (outcome.status === 'refused') this.#known?.queues.delete(queue);
      settle(outcome);
    };
  }

  /** Writing to a server that reads nothing would fill our memory, and later everything would be sent twice. */
  async #untilUnblocked(link: OpenLink): Promise<void> {
    const reason = link.blocked();
    if (reason === null) return;
    const timeout = new AbortController();
    await Promise.race([
      link.unblocked().then(() => timeout.abort()),
      sleep(systemClock, TIMEOUT_MS, timeout.signal),
    ]);
    if (link.blocked() !== null)
      throw new Error(`RabbitMQ takes no messages at the moment: ${reason}`);
  }

  #openChannel(link: OpenLink, route: Route): ChannelState {
    const known = this.#channels.get(route);
    if (known?.link === link && !known.isClosed) return known;
    const close = (): void => {
      made.isClosed = true;
    };
    const made: ChannelState = {
      link,
      isClosed: false,
      channel: null,
      opening: ConfirmedChannel.open(link, close),
    };
    made.opening.then(channel => (made.channel = channel), close);
    this.#channels.set(route, made);
    return made;
  }

  /** Why messages to these queues cannot be published, by queue; queues without a problem are not listed. */
  async #ensureQueues(
    link: OpenLink,
    prepared: readonly Prepared[],
  ): Promise<ReadonlyMap<string, string>> {
    if (this.#known?.link !== link) this.#known = { link, queues: new Map() };
    const { queues } = this.#known;
    const refused = new Map<string, string>();
    // All messages of a call are published in the same manner.
    const mayDeclare = prepared.every(item => item.mayDeclare);
    for (const queue of new Set(prepared.map(item => item.queue))) {
      if (queue === null) continue;
      let answer = queues.get(queue);
      if (answer === undefined) {
        answer = mayDeclare ? this.#ensureQueue(link, queue) : this.#findQueue(link, queue);
        queues.set(queue, answer);
      }
      const why = await answer.catch((error: unknown) => {
        queues.delete(queue);
        throw error;
      });
      if (why === null) continue;
      queues.delete(queue);
      refused.set(queue, why);
    }
    return refused;
  }

  /** Messages may name a thousand queues, and a connection has two thousand channels: only a few are checked at once. */
  async #findQueue(link: OpenLink, queue: string): Promise<string | null> {
    return await this.#finding.run(async () => {
      try {
        if (await isCeleryQueue(link.model, queue)) return null;
        return `queue ${queue} is not known here, and no worker of Celery or Outlast has declared it`;
      } catch (error) {
        if (replyCode(error) === null) throw error;
        return `queue ${queue} cannot be looked at: ${textOf(error)}`;
      }
    });
  }

  async #ensureQueue(link: OpenLink, queue: string): Promise<string | null> {
    try {
      await ensureQueue(link.model, queue, this.#shape);
      return null;
    } catch (error) {
      // The server's error about this queue; anything else concerns the connection.
      if (replyCode(error) === null) throw error;
      return `queue ${queue} cannot be declared: ${textOf(error)}`;
    }
  }
}

const routeOf = ({ queue, options }: Prepared): string =>
  queue === null ? `exchange ${options.exchange ?? ''}` : `queue ${queue}`;

const routeOfLater = ({ queue, etaMs }: Envelope): ReturnType<typeof delayedRoute> =>
  etaMs === null ? null : delayedRoute(queue, etaMs - systemClock.now());

const notEncoded = (error: unknown): PublishOutcome => ({
  status: 'refused',
  error: `it cannot be encoded: ${textOf(error)}`,
  isFinal: true,
});

function textOf(error: unknown): string {
  if (isOutlastError(error)) return `${error.message}. ${error.hint}`;
  return error instanceof Error ? error.message : String(error);
}
