import type { Clock } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { MARKS, hasMark } from '../task/marks.ts';
import { readOptions } from '../task/read-options.ts';
import type { Reply } from '../wire/reply.ts';
import type { Broker, PublishManner, PublishOutcome } from './broker.ts';
import { hasFollowUps } from '../task/signature.ts';
import type { Traces } from '../telemetry/traces.ts';

/** A destination that answers later than this, while others answer, counts as silent. */
const SLOW_MS = 2_000;
const COOLDOWN_MS = 1_000;
const LONGEST_COOLDOWN_MS = 60_000;
/** Destinations that were slow and are no longer. */
const MOST_REMEMBERED = 1_000;
/** Names come from messages: beyond this many at once, the rest share one state. */
const MOST_STATES = 5_000;
const OTHERS = 'one of many other destinations';

interface Call {
  readonly at: number;
  isGivenUp: boolean;
}

/** The state of one destination. */
interface Destination {
  /** Calls without an answer, oldest first, including abandoned ones. */
  readonly calls: Set<Call>;
  /** Consecutive abandoned calls. */
  failures: number;
  /** When the first and the last of them were. */
  failedFirstAt: number;
  failedAt: number;
  /** Nothing is sent to it until then. */
  silentUntil: number;
  isProbed: boolean;
  /** How long it may take while others answer; a slow one that does answer gets more. */
  graceMs: number;
}

type Send<T> = (items: readonly T[]) => Promise<readonly PublishOutcome[]>;

interface Sending<T> {
  readonly to: string;
  readonly items: readonly T[];
  readonly send: Send<T>;
  readonly limitMs: number;
}

export interface GuardOptions {
  /** The caller has its own breaker for a broker that answers nothing: then the caller decides when to try again. */
  readonly isBreaking?: boolean;
  /** Left out: nothing is traced. */
  readonly traces?: Traces | undefined;
}

/**
 * Publishes so that every wait has a limit, and no destination holds up another. RabbitMQ confirms nothing under an
 * alarm, nor for a quorum queue without its majority; a caller that waits for such a confirm would be stuck.
 *
 *   answering ──no answer in time──► silent, left alone ──cooldown over──► probed with one message
 *       ▲                                  ▲                                  │         │
 *       │                                  └──────────no answer in time───────┘         │
 *       └──────────────────────────────an answer, however late──────────────────────────┘
 *
 * Messages for a silent destination get an outcome at once: `unavailable`, with `retryAfterMs`.
 */
export class DestinationGuard {
  readonly #broker: Pick<Broker, 'publish' | 'reply' | 'hasQueues'>;
  readonly #clock: Pick<Clock, 'monotonic' | 'timer'>;
  readonly #destinations = new Map<string, Destination>();
  readonly #isBreaking: boolean;
  readonly #traces: Traces | undefined;
  /** When any destination last answered. */
  #answeredAt = -Infinity;

  constructor(
    broker: Pick<Broker, 'publish' | 'reply' | 'hasQueues'>,
    clock: Pick<Clock, 'monotonic' | 'timer'>,
    options: GuardOptions = {},
  ) {
    this.#broker = broker;
    this.#clock = clock;
    this.#isBreaking = options.isBreaking ?? false;
    this.#traces = options.traces;
  }

  /** False: this broker cannot answer senders. */
  get answers(): boolean {
    return this.#broker.reply !== undefined;
  }

  /** One outcome for each message, in order, after `limitMs` at the latest. Never rejects. */
  publish(
    messages: readonly Envelope[],
    limitMs: number,
    manner?: PublishManner,
  ): Promise<readonly PublishOutcome[]> {
    const send: Send<Envelope> = some => this.#broker.publish(some, manner);
    const publish = () => this.#sendByDestination(messages, destinationOf, send, limitMs);
    return this.#traces === undefined ? publish() : this.#traces.publish(messages, publish);
  }

  /** The same for answers to senders. */
  reply(replies: readonly Reply[], limitMs: number): Promise<readonly PublishOutcome[]> {
    const send: Send<Reply> = async some => (await this.#broker.reply?.(some)) ?? [];
    return this.#sendByDestination(replies, ({ replyTo }) => `reply ${replyTo}`, send, limitMs);
  }

  async #sendByDestination<T>(
    items: readonly T[],
    nameOf: (item: T) => string,
    send: Send<T>,
    limitMs: number,
  ): Promise<readonly PublishOutcome[]> {
    if (items.length === 0) return [];
    const byName = new Map<string, number[]>();
    for (const [index, item] of items.entries()) {
      const name = this.#broker.hasQueues === true ? this.#known(nameOf(item)) : 'the broker';
      const same = byName.get(name);
      if (same) same.push(index);
      else byName.set(name, [index]);
    }
    const outcomes: PublishOutcome[] = [];
    const sendings = [...byName].map(async ([to, indexes]) => {
      const some = indexes.map(index => items[index] as T);
      const answers = await this.#sendTo({ to, items: some, send, limitMs });
      for (const [position, index] of indexes.entries())
        outcomes[index] = answers[position] ?? { status: 'unavailable', error: 'no answer' };
    });
    await Promise.all(sendings);
    return outcomes;
  }

  async #sendTo<T>(sending: Sending<T>): Promise<readonly PublishOutcome[]> {
    const { to, items } = sending;
    const destination = this.#destinationFor(to);
    const waitMs = this.#waitMs(destination);
    if (waitMs > 0) return items.map(() => silent(to, waitMs));
    if (
      destination.failures === 0 ||
      (this.#isBreaking && !this.#isAlone(destination.failedFirstAt))
    )
      return await this.#inTime(destination, sending);
    // One message shows whether it answers again: sending all would only fill a queue that does not move.
    destination.isProbed = true;
    const [first, ...rest] = items;
    const probe = await this.#inTime(destination, { ...sending, items: [first as T] });
    destination.isProbed = false;
    if (rest.length === 0) return probe;
    return [...probe, ...(await this.#sendTo({ ...sending, items: rest }))];
  }

  #known(name: string): string {
    return this.#destinations.size < MOST_STATES || this.#destinations.has(name) ? name : OTHERS;
  }

  #destinationFor(to: string): Destination {
    const known = this.#destinations.get(to);
    if (known) return known;
    const made: Destination = {
      calls: new Set(),
      failures: 0,
      failedFirstAt: Infinity,
      failedAt: -Infinity,
      silentUntil: -Infinity,
      isProbed: false,
      graceMs: SLOW_MS,
    };
    this.#destinations.set(to, made);
    return made;
  }

  /** How long to leave the destination alone; 0: it may be tried. */
  #waitMs(destination: Destination): number {
    const now = this.#clock.monotonic();
    if (destination.failures > 0) {
      if (this.#isBreaking && !this.#isAlone(destination.failedFirstAt)) return 0;
      return destination.isProbed ? COOLDOWN_MS : Math.max(0, destination.silentUntil - now);
    }
    const [oldest] = destination.calls;
    const isLate = oldest !== undefined && now - oldest.at > destination.graceMs;
    return isLate && this.#isAlone(oldest.at) ? COOLDOWN_MS : 0;
  }

  /** Whether the destination is silent, and not the broker: others answered shortly before that, or since. */
  #isAlone(since: number): boolean {
    return this.#broker.hasQueues === true && this.#answeredAt > since - SLOW_MS;
  }

  #inTime<T>(destination: Destination, sending: Sending<T>): Promise<readonly PublishOutcome[]> {
    const { to, items, send, limitMs } = sending;
    const call: Call = { at: this.#clock.monotonic(), isGivenUp: false };
    destination.calls.add(call);
    return new Promise(resolve => {
      const giveUp = (): void => {
        const waitedMs = this.#clock.monotonic() - call.at;
        const isAlone = this.#isAlone(Math.min(call.at, destination.failedFirstAt));
        if (!isAlone && destination.failures === 0 && waitedMs < limitMs)
          cancel = this.#clock.timer(limitMs - waitedMs, giveUp);
        else {
          this.#fail(destination, call);
          const error = `${to} did not confirm within ${Math.round(waitedMs)} ms`;
          const retry = isAlone ? { retryAfterMs: this.#waitMs(destination) } : {};
          resolve(items.map(() => ({ status: 'unavailable', error, ...retry })));
        }
      };
      let cancel = this.#clock.timer(Math.min(limitMs, destination.graceMs), giveUp);
      void send(items)
        .catch((error: unknown) => items.map(() => unavailable(error)))
        .then(outcomes => {
          cancel();
          this.#answered(to, destination, call, outcomes);
          resolve(outcomes);
        });
    });
  }

  /** Calls in flight together fail together, once. */
  #fail(destination: Destination, call: Call): void {
    call.isGivenUp = true;
    if (call.at < destination.failedAt) return;
    const now = this.#clock.monotonic();
    const cooldownMs = Math.min(COOLDOWN_MS * 2 ** destination.failures, LONGEST_COOLDOWN_MS);
    if (destination.failures === 0) destination.failedFirstAt = call.at;
    destination.failures += 1;
    destination.failedAt = now;
    destination.silentUntil = now + cooldownMs;
  }

  /** A late answer shows that the destination is slow, not silent. */
  #answered(
    to: string,
    destination: Destination,
    call: Call,
    outcomes: readonly PublishOutcome[],
  ): void {
    destination.calls.delete(call);
    if (outcomes.some(({ status }) => status !== 'unavailable')) {
      const now = this.#clock.monotonic();
      this.#answeredAt = now;
      destination.failures = 0;
      destination.failedFirstAt = Infinity;
      // Calls it never answered no longer say anything about its state.
      for (const old of destination.calls) if (old.isGivenUp) destination.calls.delete(old);
      destination.graceMs = Math.max(SLOW_MS, 2 * (now - call.at));
    }
    const isOrdinary = destination.graceMs === SLOW_MS || this.#destinations.size > MOST_REMEMBERED;
    if (destination.calls.size === 0 && destination.failures === 0 && isOrdinary)
      this.#destinations.delete(to);
  }
}

/** The destination of a message as text. Cheap, because it is called for every message. */
function destinationOf(envelope: Envelope): string {
  const { options, queue } = envelope;
  if (!hasMark(options, MARKS.exchange)) return `queue ${queue}`;
  const { exchange = '' } = readOptions(envelope);
  return exchange === '' ? `queue ${queue}` : `exchange ${exchange}`;
}

const silent = (to: string, retryAfterMs: number): PublishOutcome => ({
  status: 'unavailable',
  error: `${to} does not confirm; it is asked again in ${Math.round(retryAfterMs)} ms`,
  retryAfterMs,
});

const unavailable = (error: unknown): PublishOutcome => ({
  status: 'unavailable',
  error: error instanceof Error ? error.message : String(error),
});

type Publish = (messages: readonly Envelope[]) => Promise<readonly PublishOutcome[]>;

/**
 * Publishes messages that a worker accepts whole. A larger one would be cut there, and be lost; if it is refused here,
 * the sender still has all of it.
 */
export async function publishWithin(
  messages: readonly Envelope[],
  maxBytes: number,
  publish: Publish,
): Promise<readonly PublishOutcome[]> {
  const fits = ({ body }: Envelope): boolean => body.length <= maxBytes;
  if (messages.every(fits)) return await publish(messages);
  const outcomes = (await publish(messages.filter(fits))).values();
  return messages.map(message =>
    fits(message) ? (outcomes.next().value as PublishOutcome) : refused(message, maxBytes),
  );
}

const refused = ({ body }: Envelope, maxBytes: number): PublishOutcome => ({
  status: 'refused',
  error: `its body has ${body.length} bytes, and workers take ${maxBytes} at most (maxMessageBytes)`,
});

/** Called with messages that have follow-ups, before they are sent. */
export type Announce = (messages: readonly Envelope[]) => Promise<void>;

/** Returns the message to send: the same task. */
export type Renew = (message: Envelope) => Envelope;

/** Called with answers to senders, before they are sent. */
export type Store = (replies: readonly Reply[]) => Promise<void>;

/**
 * The same broker, which registers chords and their sizes before it sends messages. A message whose signature expires
 * soon is signed again.
 */
export function withChordRegistration(
  broker: Broker,
  announce: Announce | null,
  renew?: Renew,
  store?: Store,
): Broker {
  if (announce === null && renew === undefined) return broker;
  const { hasQueues = false } = broker;
  const [reply, silentMs] = [replyOf(broker, store), broker.silentMs?.bind(broker)];
  const [forget, requeue] = [broker.forget?.bind(broker), broker.requeue?.bind(broker)];
  const [blockedBy, pushWithin] = [broker.blockedBy?.bind(broker), broker.pushWithin?.bind(broker)];
  const revoke = broker.revoke?.bind(broker);
  return {
    hasQueues,
    publish: async (messages, manner) => {
      try {
        const followed = announce === null ? [] : messages.filter(({ body }) => hasFollowUps(body));
        if (followed.length > 0) await announce?.(followed);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return messages.map(() => ({ status: 'unavailable', error: why }));
      }
      return await broker.publish(renew ? messages.map(renew) : messages, manner);
    },
    take: (queues, limit) => broker.take(queues, limit),
    ack: deliveries => broker.ack(deliveries),
    giveBack: deliveries => broker.giveBack(deliveries),
    onReady: (queues, hint) => broker.onReady(queues, hint),
    ...(pushWithin ? { pushWithin } : {}),
    ...(forget ? { forget } : {}),
    ...(requeue ? { requeue } : {}),
    ...(blockedBy ? { blockedBy } : {}),
    ...(reply ? { reply } : {}),
    ...(revoke ? { revoke } : {}),
    ...(silentMs ? { silentMs } : {}),
    close: () => broker.close(),
  };
}

/** Answers are stored first: a caller that waits there has no queue, and the broker confirms that too. */
function replyOf(broker: Broker, store: Store | undefined): Broker['reply'] {
  const reply = broker.reply?.bind(broker);
  if (reply === undefined || store === undefined) return reply;
  return async replies => {
    try {
      await store(replies);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return replies.map(() => ({ status: 'unavailable', error: why }));
    }
    return await reply(replies);
  };
}
