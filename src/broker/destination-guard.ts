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
/** Names come from messages: beyond this many at once, the rest share a lane. */
const MOST_LANES = 5_000;
const OTHERS = 'one of many other destinations';

interface Call {
  readonly at: number;
  isGivenUp: boolean;
}

/** The state of one destination. */
interface Lane {
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
  readonly #lanes = new Map<string, Lane>();
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
    const publish = () => this.#sendApart(messages, destinationOf, send, limitMs);
    return this.#traces === undefined ? publish() : this.#traces.publish(messages, publish);
  }

  /** The same for answers to senders. */
  reply(replies: readonly Reply[], limitMs: number): Promise<readonly PublishOutcome[]> {
    const send: Send<Reply> = async some => (await this.#broker.reply?.(some)) ?? [];
    return this.#sendApart(replies, ({ replyTo }) => `reply ${replyTo}`, send, limitMs);
  }

  async #sendApart<T>(
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
    const lane = this.#laneOf(to);
    const waitMs = this.#waitMs(lane);
    if (waitMs > 0) return items.map(() => silent(to, waitMs));
    if (lane.failures === 0 || (this.#isBreaking && !this.#isAlone(lane.failedFirstAt)))
      return await this.#inTime(lane, sending);
    // One message shows whether it answers again: sending all would only fill a queue that does not move.
    lane.isProbed = true;
    const [first, ...rest] = items;
    const probe = await this.#inTime(lane, { ...sending, items: [first as T] });
    lane.isProbed = false;
    if (rest.length === 0) return probe;
    return [...probe, ...(await this.#sendTo({ ...sending, items: rest }))];
  }

  #known(name: string): string {
    return this.#lanes.size < MOST_LANES || this.#lanes.has(name) ? name : OTHERS;
  }

  #laneOf(to: string): Lane {
    const known = this.#lanes.get(to);
    if (known) return known;
    const made: Lane = {
      calls: new Set(),
      failures: 0,
      failedFirstAt: Infinity,
      failedAt: -Infinity,
      silentUntil: -Infinity,
      isProbed: false,
      graceMs: SLOW_MS,
    };
    this.#lanes.set(to, made);
    return made;
  }

  /** How long to leave the destination alone; 0: it may be tried. */
  #waitMs(lane: Lane): number {
    const now = this.#clock.monotonic();
    if (lane.failures > 0) {
      if (this.#isBreaking && !this.#isAlone(lane.failedFirstAt)) return 0;
      return lane.isProbed ? COOLDOWN_MS : Math.max(0, lane.silentUntil - now);
    }
    const [oldest] = lane.calls;
    const isLate = oldest !== undefined && now - oldest.at > lane.graceMs;
    return isLate && this.#isAlone(oldest.at) ? COOLDOWN_MS : 0;
  }

  /** Whether the destination is silent, and not the broker: others answered shortly before that, or since. */
  #isAlone(since: number): boolean {
    return this.#broker.hasQueues === true && this.#answeredAt > since - SLOW_MS;
  }

  #inTime<T>(lane: Lane, sending: Sending<T>): Promise<readonly PublishOutcome[]> {
    const { to, items, send, limitMs } = sending;
    const call: Call = { at: this.#clock.monotonic(), isGivenUp: false };
    lane.calls.add(call);
    return new Promise(resolve => {
      const giveUp = (): void => {
        const waitedMs = this.#clock.monotonic() - call.at;
        const isAlone = this.#isAlone(Math.min(call.at, lane.failedFirstAt));
        if (!isAlone && lane.failures === 0 && waitedMs < limitMs)
          cancel = this.#clock.timer(limitMs - waitedMs, giveUp);
        else {
          this.#fail(lane, call);
          const error = `${to} did not confirm within ${Math.round(waitedMs)} ms`;
          const retry = isAlone ? { retryAfterMs: this.#waitMs(lane) } : {};
          resolve(items.map(() => ({ status: 'unavailable', error, ...retry })));
        }
      };
      let cancel = this.#clock.timer(Math.min(limitMs, lane.graceMs), giveUp);
      void send(items)
        .catch((error: unknown) => items.map(() => unavailable(error)))
        .then(outcomes => {
          cancel();
          this.#answered(to, lane, call, outcomes);
          resolve(outcomes);
        });
    });
  }

  /** Calls in flight together fail together, once. */
  #fail(lane: Lane, call: Call): void {
    call.isGivenUp = true;
    if (call.at < lane.failedAt) return;
    const now = this.#clock.monotonic();
    const cooldownMs = Math.min(COOLDOWN_MS * 2 ** lane.failures, LONGEST_COOLDOWN_MS);
    if (lane.failures === 0) lane.failedFirstAt = call.at;
    lane.failures += 1;
    lane.failedAt = now;
    lane.silentUntil = now + cooldownMs;
  }

  /** A late answer shows that the destination is slow, not silent. */
  #answered(to: string, lane: Lane, call: Call, outcomes: readonly PublishOutcome[]): void {
    lane.calls.delete(call);
    if (outcomes.some(({ status }) => status !== 'unavailable')) {
      const now = this.#clock.monotonic();
      this.#answeredAt = now;
      lane.failures = 0;
      lane.failedFirstAt = Infinity;
      // Calls it never answered no longer say anything about its state.
      for (const old of lane.calls) if (old.isGivenUp) lane.calls.delete(old);
      lane.graceMs = Math.max(SLOW_MS, 2 * (now - call.at));
    }
    const isOrdinary = lane.graceMs === SLOW_MS || this.#lanes.size > MOST_REMEMBERED;
    if (lane.calls.size === 0 && lane.failures === 0 && isOrdinary) this.#lanes.delete(to);
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
export function announcing(
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
