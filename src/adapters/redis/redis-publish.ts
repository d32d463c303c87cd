import type { PublishManner, PublishOutcome } from '../../broker/broker.ts';
import type { Envelope } from '../../task/envelope.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { isWrongType } from './redis-errors.ts';
import { type Element, encodeElement } from './redis-element.ts';
import {
  STEPS,
  bindingKey,
  boundQueues,
  isReservedKey,
  ownBinding,
  queueKeys,
} from './redis-keys.ts';

/** One script call stays below both: it blocks the server while it runs. */
const MOST_ELEMENTS = 500;
const MOST_CHARS = 4_194_304;

/** An element on its way to one queue, and the indexes of its messages. */
interface Sending {
  readonly queue: string;
  readonly element: Element;
  readonly message: number;
}

/**
 * Puts messages into lists. A list accepts every push, so a message is unroutable only if it names an exchange; the list
 * need not have a consumer.
 */
export class RedisPublisher {
  readonly #connection: RedisConnection;
  readonly #origin: string;
  /** Queues whose binding was written since the server was last reached. */
  readonly #declared = new Set<string>();

  constructor(connection: RedisConnection, origin: string) {
    this.#connection = connection;
    this.#origin = origin;
    connection.onConnected(() => this.#declared.clear());
  }

  async publish(
    messages: readonly Envelope[],
    { toExisting = false, alsoDeclare = [] }: PublishManner = {},
  ): Promise<readonly PublishOutcome[]> {
    for (const queue of alsoDeclare) if (!isReservedKey(queue)) this.declare(queue);
    const outcomes = messages.map((): PublishOutcome => ({ status: 'confirmed' }));
    const encoded = messages.map((message, index) => this.#encode(message, index, outcomes));
    const routed = encoded.map((sending, index) => this.#route(sending, index, outcomes));
    const all = (await Promise.all(routed)).flat();
    const slices = sliced(toExisting ? await this.#existing(all, outcomes) : all);
    await Promise.all(slices.map(slice => this.#send(slice, outcomes)));
    return outcomes;
  }

  #encode(message: Envelope, index: number, outcomes: PublishOutcome[]): Sending | null {
    try {
      const element = encodeElement(message, this.#origin);
      return { queue: message.queue, element, message: index };
    } catch (error) {
      outcomes[index] = { status: 'refused', error: textOf(error), isFinal: true };
      return null;
    }
  }

  /** To its queue; or, if it names an exchange, to all queues that kombu's bindings lead to. */
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
      outcomes[index] = outcomeOf(error);
    }
    return [];
  }

  async #send(slice: readonly Sending[], outcomes: PublishOutcome[]): Promise<void> {
    const queue = slice[0]?.queue ?? '';
    if (isReservedKey(queue)) {
      const error = `queue ${queue} has the name of a key that belongs to Outlast, Celery or kombu`;
      for (const { message } of slice) outcomes[message] = { status: 'refused', error };
      return;
    }
    try {
      const keys = queueKeys(queue, this.#connection.isCluster).lists;
      const byList = STEPS.map((_, listIndex) =>
        slice.filter(({ element }) => element.listIndex === listIndex),
      );
      const counts = byList.map(list => list.length);
      const elements = byList.flat().map(({ element }) => element.text);
      const reply = await this.#connection.script(LUA.enqueue, keys, [...counts, ...elements]);
      for (const [listIndex, problem] of (reply as readonly Buffer[]).map(String).entries()) {
        if (problem === '') continue;
        // The queue's name is another key in this database: only another name helps.
        for (const { message } of byList[listIndex] ?? []) {
          outcomes[message] = { status: 'refused', error: problem };
        }
      }
      // Declare only real queues: a name that is another key must not be listed as one.
      if ((reply as readonly Buffer[]).every(problem => problem.length === 0)) this.declare(queue);
    } catch (error) {
      const outcome: PublishOutcome = { status: 'unavailable', error: textOf(error) };
      for (const { message } of slice) outcomes[message] = outcome;
    }
  }

  /** Those whose queue was declared, as Celery and we do: other keys belong to programs that know nothing about tasks. */
  async #existing(
    sendings: readonly Sending[],
    outcomes: PublishOutcome[],
  ): Promise<readonly Sending[]> {
    const queues = [...new Set(sendings.map(({ queue }) => queue))];
    const refused = new Map<string, PublishOutcome>();
    const look = async (queue: string): Promise<void> => {
      try {
        const found = await this.#connection.command(
          'sismember',
          bindingKey(queue),
          ownBinding(queue),
        );
        const error = `queue ${queue} is not known here, and no worker of Celery or Outlast has declared it`;
        if (found !== 1) refused.set(queue, { status: 'refused', error });
      } catch (error) {
        refused.set(queue, outcomeOf(error));
      }
    };
    await Promise.all(queues.map(look));
    return sendings.filter(({ queue, message }) => {
      const outcome = refused.get(queue);
      if (outcome !== undefined) outcomes[message] = outcome;
      return outcome === undefined;
    });
  }

  /**
   * Lists the queue for kombu's tools, as a Celery producer or consumer would, and for callers that check whether they
   * may send there. Not awaited.
   */
  declare(queue: string): void {
    if (this.#declared.has(queue)) return;
    this.#declared.add(queue);
    this.#connection
      .command('sadd', bindingKey(queue), ownBinding(queue))
      .catch(() => this.#declared.delete(queue));
  }
}

/** Cuts into script calls: one queue each, in message order, of bounded size. */
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

/** A binding that is not a set was not written by kombu. */
const outcomeOf = (error: unknown): PublishOutcome => ({
  status: isWrongType(error) ? 'refused' : 'unavailable',
  error: textOf(error),
});

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A failed subscription is retried; until then workers rely on polling. */
const RETRY_MS = 1_000;

/** Forwards hints that tasks may be ready, on a connection that exists only while there are listeners. */
export class RedisHints {
  readonly #connection: RedisConnection;
  readonly #pattern: string;
  readonly #hints = new Set<() => void>();
  #listening: RedisConnection | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: RedisConnection, pattern: string) {
    this.#connection = connection;
    this.#pattern = pattern;
  }

  add(hint: () => void): () => void {
    // A separate entry, even if the same function is given twice.
    const entry = (): void => hint();
    this.#hints.add(entry);
    if (this.#listening === null) this.#listen();
    return () => {
      this.#hints.delete(entry);
      if (this.#hints.size === 0) this.close();
    };
  }

  close(): void {
    this.#hints.clear();
    clearTimeout(this.#timer);
    this.#listening?.close();
    this.#listening = null;
  }

  #listen(): void {
    const connection = this.#connection.another();
    this.#listening = connection;
    const notify = (): void => {
      for (const hint of this.#hints) hint();
    };
    connection.subscribe(this.#pattern, notify).catch(() => {
      connection.close();
      if (this.#listening !== connection) return;
      this.#timer = setTimeout(() => this.#listen(), RETRY_MS).unref();
    });
  }
}
