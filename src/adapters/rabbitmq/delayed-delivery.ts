import type { ChannelModel } from 'amqplib';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { isExchange } from './exchange.ts';
import { replyCode } from './rabbitmq-errors.ts';
import { withChannel } from './with-channel.ts';

/**
 * Where Celery 5.5 and later, with quorum queues, have messages wait for their time: a queue for each power of two of the
 * seconds that are left, the highest first. The routing key begins with the bits of the number of seconds; a message waits in
 * the queues whose bit is set, passes by the others, and reaches its own queue by the rest of the key. Celery's workers
 * declare all of this when they start, and its senders only use it, so where no worker of Celery consumes we declare it.
 */

const LEVELS = 28;
const DELIVERY = 'celery_delayed_delivery';
/** Longer waits cannot be expressed. */
const MOST_SECONDS = 2 ** LEVELS - 1;

const levelName = (level: number): string => `celery_delayed_${level}`;

/** Celery's `broker_native_delayed_delivery_queue_type`. */
export type DelayQueueType = 'classic' | 'quorum';

/**
 * Declares what is missing, each part in its own step: a server that is busy may need a while for all of it. The last exchange
 * is there when all before it is, for Celery declares in the same order; its binding may be missing.
 */
async function ensureLevels(model: ChannelModel, queueType: DelayQueueType): Promise<void> {
  const [hasDelivery, hasLevels] = [
    await isExchange(model, DELIVERY),
    await isExchange(model, levelName(0)),
  ];
  if (hasDelivery && hasLevels) return await bindDelivery(model);
  for (let level = LEVELS - 1; level >= 0; level--) await declareLevel(model, level, queueType);
  await withChannel(model, DELIVERY, async channel => {
    await channel.assertExchange(DELIVERY, 'topic', { durable: true });
  });
  await bindDelivery(model);
}

async function bindDelivery(model: ChannelModel): Promise<void> {
  await withChannel(model, DELIVERY, async channel => {
    await channel.bindExchange(DELIVERY, levelName(0), passedBy(0));
  });
}

async function declareLevel(
  model: ChannelModel,
  level: number,
  queueType: DelayQueueType,
): Promise<void> {
  const name = levelName(level);
  await withChannel(model, name, async channel => {
    await channel.assertExchange(name, 'topic', { durable: true });
    await channel.assertQueue(name, {
      durable: true,
      arguments: {
        'x-queue-type': queueType,
        'x-overflow': 'reject-publish',
        'x-message-ttl': 2 ** level * 1_000,
        'x-dead-letter-exchange': level > 0 ? levelName(level - 1) : DELIVERY,
        ...(queueType === 'quorum' ? { 'x-dead-letter-strategy': 'at-least-once' } : {}),
      },
    });
    await channel.bindQueue(name, name, `${'*.'.repeat(LEVELS - 1 - level)}1.#`);
    if (level < LEVELS - 1)
      await channel.bindExchange(name, levelName(level + 1), passedBy(level + 1));
  });
}

const passedBy = (level: number): string => `${'*.'.repeat(LEVELS - 1 - level)}0.#`;

type Reached = 'reached' | 'refused' | 'unknown';

/** While the server does not answer. */
const AGAIN: BackoffPolicy = { baseMs: 500, maxMs: 10_000, jitter: 'full' };

/** Declares it for the queues of a process, once on each connection. */
export class DelayedDelivery {
  readonly #queueType: DelayQueueType;
  readonly #onTrouble: (error: unknown) => void;
  #model: ChannelModel | null = null;
  #levels: Promise<void> | null = null;
  readonly #queues = new Map<string, Promise<Reached>>();

  constructor(queueType: DelayQueueType, onTrouble: (error: unknown) => void) {
    this.#queueType = queueType;
    this.#onTrouble = onTrouble;
  }

  /** Whether delayed messages reach the queue; `refused` by the server, `unknown` if it does not answer. Never rejects. */
  async reach(model: ChannelModel, queue: string): Promise<Reached> {
    if (this.#model !== model) {
      this.#model = model;
      this.#levels = null;
      this.#queues.clear();
    }
    const levels = (this.#levels ??= ensureLevels(model, this.#queueType));
    const reaching = this.#queues.get(queue) ?? levels.then(() => bindQueue(model, queue));
    this.#queues.set(queue, reaching);
    try {
      return await reaching;
    } catch (error) {
      this.#onTrouble(error);
      if (this.#model !== model) return 'unknown';
      const isRefused = replyCode(error) !== null;
      if (isRefused) this.#queues.set(queue, Promise.resolve('refused'));
      else this.#queues.delete(queue);
      if (!isRefused && this.#levels === levels) this.#levels = null;
      return isRefused ? 'refused' : 'unknown';
    }
  }

  /** Tries until the server has answered, or the connection is another one. Never rejects. */
  async keepReaching(model: ChannelModel, queue: string, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures++) {
      if ((await this.reach(model, queue)) !== 'unknown' || this.#model !== model) return;
      await sleep(systemClock, backoffMs(AGAIN, failures, Math.random()), signal);
    }
  }
}

/** With all bits in the pattern: one with `#`, as Celery's is, would also get what is for `other.queue`. */
async function bindQueue(model: ChannelModel, queue: string): Promise<'reached'> {
  await withChannel(model, queue, async channel => {
    await channel.bindQueue(queue, DELIVERY, `${'*.'.repeat(LEVELS)}${queue}`);
  });
  return 'reached';
}

/** Where to send a message that is to arrive later; null: it is due within a second, or too late to be expressed. */
export function delayedRoute(
  queue: string,
  waitMs: number,
): { readonly exchange: string; readonly routingKey: string } | null {
  // Rounded down, as Celery does: the receiver waits for the rest.
  const seconds = Math.floor(waitMs / 1_000);
  if (seconds < 1 || seconds > MOST_SECONDS) return null;
  const bits = seconds.toString(2).padStart(LEVELS, '0').split('').join('.');
  return { exchange: levelName(LEVELS - 1), routingKey: `${bits}.${queue}` };
}
