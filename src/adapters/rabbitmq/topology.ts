import type { ChannelModel } from 'amqplib';
import type { DelayQueueType } from './delayed-delivery.ts';
import { isExchange } from './exchange.ts';
import { replyCode } from './rabbitmq-errors.ts';
import { withChannel } from './with-channel.ts';

export interface QueueShape {
  readonly queueType: 'classic' | 'quorum';
  /** Celery's `task_queue_max_priority`; null: no priorities, as Celery declares by default. */
  readonly maxPriority: number | null;
  /** Of the exchange that is declared beside it; null: none, because Celery's programs declare it. */
  readonly exchangeType: 'direct' | 'topic' | null;
  readonly delayedDelivery: DelayQueueType | 'off';
}

const [NOT_FOUND, PRECONDITION_FAILED] = [404, 406];

/**
 * Ensures that a queue exists. An existing one is used as it is: declaring it with other arguments than Celery did
 * closes the channel. A missing one is declared as Celery does: queue, exchange and binding, all with the same name, all
 * durable.
 */
export async function ensureQueue(
  model: ChannelModel,
  queue: string,
  shape: QueueShape,
): Promise<void> {
  if (await isThere(model, queue)) return;
  try {
    await withChannel(model, queue, async channel => {
      await channel.assertQueue(queue, { durable: true, arguments: argumentsOf(shape) });
    });
  } catch (error) {
    // Another process has declared it in between, with other arguments.
    if (replyCode(error) === PRECONDITION_FAILED && (await isThere(model, queue))) return;
    throw error;
  }
  await bind(model, queue, shape);
}

/**
 * Whether a queue exists that was declared as Celery does, with an exchange of its own name, or by us, with a mark. Other
 * queues belong to programs that know nothing about tasks. Declares nothing.
 */
export async function isCeleryQueue(model: ChannelModel, queue: string): Promise<boolean> {
  if (!(await isThere(model, queue))) return false;
  return (await isExchange(model, queue)) || (await isExchange(model, markOf(queue)));
}

/** The exchange that stands for one of the queue's own name, where its type is for Celery to decide. Unused. */
const markOf = (queue: string): string => `outlast:queue:${queue}`;

async function isThere(model: ChannelModel, queue: string): Promise<boolean> {
  try {
    await withChannel(model, queue, channel => channel.checkQueue(queue));
    return true;
  } catch (error) {
    if (replyCode(error) === NOT_FOUND) return false;
    throw error;
  }
}

function argumentsOf({ queueType, maxPriority }: QueueShape): Record<string, unknown> {
  return {
    ...(queueType === 'quorum' ? { 'x-queue-type': 'quorum' } : {}),
    ...(maxPriority === null ? {} : { 'x-max-priority': maxPriority }),
  };
}

export interface ExchangeShape {
  readonly type: 'direct' | 'fanout' | 'topic';
  readonly durable: boolean;
}

/** As Celery declares the exchange of remote control. */
export const CONTROL_SHAPE: ExchangeShape = { type: 'fanout', durable: false };

/** The same for an exchange: an existing one is used as it is. */
export async function ensureExchange(
  model: ChannelModel,
  exchange: string,
  { type, durable }: ExchangeShape,
): Promise<void> {
  if (await isExchange(model, exchange)) return;
  await withChannel(model, exchange, channel =>
    channel.assertExchange(exchange, type, { durable }),
  );
}

/**
 * We publish to the default exchange, so a process that may not declare one, or finds another there, goes on without it.
 */
async function bind(
  model: ChannelModel,
  queue: string,
  { exchangeType }: QueueShape,
): Promise<void> {
  try {
    await withChannel(model, queue, async channel => {
      await channel.assertExchange(
        exchangeType === null ? markOf(queue) : queue,
        exchangeType ?? 'direct',
        { durable: true },
      );
      if (exchangeType !== null) await channel.bindQueue(queue, queue, queue);
    });
  } catch (error) {
    if (replyCode(error) === null) throw error;
  }
}
