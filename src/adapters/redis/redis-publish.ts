import type { PublishOutcome } from '../../broker/broker.ts';
import type { Envelope } from '../../task/envelope.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { encodeElement, type Element } from './redis-element.ts';
import { bindingKey, boundQueues, ownBinding, queueKeys, STEPS } from './redis-keys.ts';

/** One call of the script stays below both: it holds the server for as long as it takes. */
const MOST_ELEMENTS = 500;
const MOST_CHARS = 4_194_304;

/** An element on its way to one queue, and the places of the messages it stands for. */
interface Sending {
  readonly queue: string;
  readonly element: Element;
  readonly message: number;
}

/**
 * Puts messages into lists. A list takes what is pushed, so a message cannot be routed to nothing unless it names an
 * exchange; nobody need consume the list.
 */
export class RedisPublisher {
  readonly #connection: RedisConnection;
  readonly #origin: string;
  /** Queues whose binding the server has been told of, since it was last reached. */
  readonly #declared = new Set<string>();

  constructor(connection: RedisConnection, origin: string) {
    this.#connection = connection;
    this.#origin = origin;
    connection.onConnected(() => this.#declared.clear());
  }

  async publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    const outcomes = messages.map((): PublishOutcome => ({ status: 'confirmed' }));
    const encoded = messages.map((message, index) => this.#encode(message, index, outcomes));
    const routed = encoded.map((sending, index) => this.#route(sending, index, outcomes));
    const slices = sliced((await Promise.all(routed)).flat());
    await Promise.all(slices.map(slice => this.#send(slice, outcomes)));
    return outcomes;
  }

  #encode(message: Envelope, index: number, outcomes: PublishOutcome[]): Sending | null {
    try {
      const element = encodeElement(message, this.#origin);
      return { queue: message.queue, element, message: index };
    } catch (error) {
      outcomes[index] = { status: 'refused', error: textOf(error) };
      return null;
    }
  }

  /** To its queue; or, for one that names an exchange, to all the queues that kombu's bindings lead to. */
  async #route(
    sending: Sending | null,
    index: number,
    outcomes: PublishOutcome[],
  ): Promise<readonly Sending[]> {
    const route = sending?.element.route ?? null;
    if (sending === null || route === null) return sending === null ? [] : [sending];
    try {
      const members = (await this.#connection.command(
        'smembers',
        bindingKey(route.exchange),
      )) as readonly Buffer[];
      const queues = boundQueues(members.map(String), route.routingKey);
      if (queues.length > 0) return queues.map(queue => ({ ...sending, queue }));
      const error = `no queue is bound to exchange ${route.exchange} by ${route.routingKey}`;
      outcomes[index] = { status: 'refused', error };
    } catch (error) {
      outcomes[index] = { status: 'unavailable', error: textOf(error) };
    }
    return [];
  }

  async #send(slice: readonly Sending[], outcomes: PublishOutcome[]): Promise<void> {
    const queue = slice[0]?.queue ?? '';
    this.#declare(queue);
    try {
      const keys = queueKeys(queue, this.#connection.isCluster).lists;
      const byPlace = STEPS.map((_, place) =>
        slice.filter(({ element }) => element.place === place),
      );
      const counts = byPlace.map(list => list.length);
      const elements = byPlace.flat().map(({ element }) => element.text);
      const reply = await this.#connection.script(LUA.enqueue, keys, [...counts, ...elements]);
      for (const [place, problem] of (reply as readonly Buffer[]).map(String).entries()) {
        if (problem === '') continue;
        // The name of the queue is that of something else in this database: only another name will do.
        for (const { message } of byPlace[place] ?? []) {
          outcomes[message] = { status: 'refused', error: problem };
        }
      }
    } catch (error) {
      const outcome: PublishOutcome = { status: 'unavailable', error: textOf(error) };
      for (const { message } of slice) outcomes[message] = outcome;
    }
  }

  /**
   * Tells kombu's tools that the queue exists, as a Celery producer would. Nothing depends on it, so nobody waits for it;
   * a cluster, which kombu cannot use, is not told.
   */
  #declare(queue: string): void {
    if (this.#connection.isCluster || this.#declared.has(queue)) return;
    this.#declared.add(queue);
    this.#connection
      .command('sadd', bindingKey(queue), ownBinding(queue))
      .catch(() => this.#declared.delete(queue));
  }
}

/** Cuts into calls of the script: one queue each, in the order of the messages, of bounded size. */
function sliced(sendings: readonly Sending[]): readonly (readonly Sending[])[] {
  const open = new Map<string, { readonly slice: Sending[]; chars: number }>();
  const slices: Sending[][] = [];
  for (const sending of sendings) {
    const { length } = sending.element.text;
    const current = open.get(sending.queue);
    const isFull =
      current === undefined ||
      current.slice.length >= MOST_ELEMENTS ||
      current.chars + length > MOST_CHARS;
    if (!isFull) {
      current.slice.push(sending);
      current.chars += length;
      continue;
    }
    const slice = [sending];
    slices.push(slice);
    open.set(sending.queue, { slice, chars: length });
  }
  return slices;
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
