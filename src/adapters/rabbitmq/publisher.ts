import type { PublishOutcome } from '../../broker/broker.ts';
import { isOutlastError } from '../../errors/error.ts';
import { sleep, systemClock } from '../../runtime/clock.ts';
import type { Envelope, EnvelopeOptions } from '../../task/envelope.ts';
import { readOptions } from '../../task/read-options.ts';
import { encodeMessage } from '../../wire/encode-message.ts';
import { ConfirmedChannel } from './confirm-channel.ts';
import type { Publication } from './frame-writer.ts';
import { replyCode } from './rabbitmq-errors.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { ensureQueue, type QueueShape } from './topology.ts';

/** Shorter than any send timeout: whoever gives up first must not write afterwards. */
const BLOCKED_PATIENCE_MS = 5_000;
/** A broker that confirms nothing for so long gets no more to hold. */
const MOST_UNDER_WAY = 20_000;

type Settle = (outcome: PublishOutcome) => void;

interface Prepared {
  readonly envelope: Envelope;
  readonly options: EnvelopeOptions;
  /** The queue to make sure of; null where the sender named an exchange of his own. */
  readonly queue: string | null;
  readonly settle: Settle;
}

/** To a queue of ours through the default exchange, or by an exchange of the sender's own. */
type Route = 'queue' | 'exchange';

interface ChannelState {
  readonly link: OpenLink;
  readonly opening: Promise<ConfirmedChannel>;
  channel: ConfirmedChannel | null;
  isClosed: boolean;
}

/** Publishing with confirmation, on a connection of its own: an alarm blocks publishers, and their acks with them. */
export class Publisher {
  readonly #link: RabbitLink;
  readonly #shape: QueueShape;
  readonly #origin: string;
  /**
   * By what may close them. Only an exchange that somebody named can be missing or forbidden; who sends to one of those
   * must not take with him what goes to queues that were made sure of.
   */
  readonly #channels = new Map<Route, ChannelState>();
  /** Queues known to be there, by connection. */
  #known: { readonly link: OpenLink; readonly queues: Map<string, Promise<string | null>> } | null =
    null;

  constructor(link: RabbitLink, shape: QueueShape, origin: string) {
    this.#link = link;
    this.#shape = shape;
    this.#origin = origin;
  }

  async publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
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
        const one = this.#prepare(envelope, settle);
        if (one !== null) prepared.push(one);
      }
      if (prepared.length > 0) void this.#send(prepared);
    });
    return outcomes;
  }

  #prepare(envelope: Envelope, settle: Settle): Prepared | null {
    try {
      const options = readOptions(envelope);
      const isOwnRoute = (options.exchange ?? '') !== '';
      return { envelope, options, queue: isOwnRoute ? null : envelope.queue, settle };
    } catch (error) {
      settle(notEncoded(error));
      return null;
    }
  }

  /** Made when it is written: what is made earlier, and kept, costs more than the making. */
  #publicationOf({ envelope, options }: Prepared): Publication {
    const { headers, properties, body } = encodeMessage(envelope, this.#origin, options);
    const { exchange = '', routingKey } = options;
    const key = exchange === '' ? envelope.queue : (routingKey ?? envelope.queue);
    return { headers, properties, body, exchange, routingKey: key };
  }

  async #send(prepared: readonly Prepared[]): Promise<void> {
    let begun = 0;
    try {
      const link = await this.#link.open();
      await this.#untilUnblocked(link);
      const refused = await this.#ensureQueues(link, prepared);
      for (const item of prepared) {
        const why = item.queue === null ? undefined : refused.get(item.queue);
        if (why !== undefined) {
          begun++;
          item.settle({ status: 'refused', error: why });
          continue;
        }
        // Asked for each: a message at fault may have closed it, and those not yet written go on another.
        const state = this.#openChannel(link, item.queue === null ? 'exchange' : 'queue');
        const channel = state.channel ?? (await state.opening);
        if (channel.underWay >= MOST_UNDER_WAY)
          throw new Error(`the broker has ${channel.underWay} messages to confirm`);
        begun++;
        this.#write(channel, item);
        if (channel.isFull) await channel.drained();
      }
    } catch (error) {
      for (const { settle } of prepared.slice(begun))
        settle({ status: 'unavailable', error: textOf(error) });
    }
  }

  #write(channel: ConfirmedChannel, item: Prepared): void {
    let publication: Publication;
    try {
      publication = this.#publicationOf(item);
    } catch (error) {
      return item.settle(notEncoded(error));
    }
    channel.write(item.envelope.id, publication, this.#watchRoute(item));
  }

  /** A queue that was there and takes nothing any more was deleted: the next attempt declares it again. */
  #watchRoute({ queue, settle }: Prepared): Settle {
    if (queue === null) return settle;
    return outcome => {
      if (outcome.status === 'refused') this.#known?.queues.delete(queue);
      settle(outcome);
    };
  }

  /** Writing to a server that reads nothing would fill our memory, and everything would be sent twice later. */
  async #untilUnblocked(link: OpenLink): Promise<void> {
    const reason = link.blocked();
    if (reason === null) return;
    const patience = new AbortController();
    await Promise.race([
      link.unblocked().then(() => patience.abort()),
      sleep(systemClock, BLOCKED_PATIENCE_MS, patience.signal),
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

  /** Why messages of these queues cannot be published, by queue; those that can are not listed. */
  async #ensureQueues(
    link: OpenLink,
    prepared: readonly Prepared[],
  ): Promise<ReadonlyMap<string, string>> {
    if (this.#known?.link !== link) this.#known = { link, queues: new Map() };
    const { queues } = this.#known;
    const refused = new Map<string, string>();
    for (const queue of new Set(prepared.map(item => item.queue))) {
      if (queue === null) continue;
      let answer = queues.get(queue);
      if (answer === undefined) {
        answer = this.#ensureQueue(link, queue);
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

  async #ensureQueue(link: OpenLink, queue: string): Promise<string | null> {
    try {
      await ensureQueue(link.model, queue, this.#shape);
      return null;
    } catch (error) {
      // The server's own words about this queue; anything else is the connection.
      if (replyCode(error) === null) throw error;
      return `queue ${queue} cannot be declared: ${textOf(error)}`;
    }
  }
}

const notEncoded = (error: unknown): PublishOutcome => ({
  status: 'refused',
  error: `it cannot be encoded: ${textOf(error)}`,
});

function textOf(error: unknown): string {
  if (isOutlastError(error)) return `${error.message}. ${error.hint}`;
  return error instanceof Error ? error.message : String(error);
}
