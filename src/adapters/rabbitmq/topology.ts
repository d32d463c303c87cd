import type { ChannelModel } from 'amqplib';
import { replyCode } from './rabbitmq-errors.ts';
import { withChannel } from './with-channel.ts';

export interface QueueShape {
  readonly queueType: 'classic' | 'quorum';
  /** Celery's `task_queue_max_priority`; null: no priorities, as Celery declares by default. */
  readonly maxPriority: number | null;
}

const [NOT_FOUND, PRECONDITION_FAILED] = [404, 406];

/**
 * Ensures that a queue exists. An existing one is used as it is: declaring it with other arguments than Celery did
 * closes the channel. A missing one is declared as Celery does: queue, direct exchange and binding, all with the same
 * name, all durable.
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
  await bind(model, queue);
}

/**
 * Whether a queue exists that was declared as Celery does, with an exchange of its own name. Other queues belong to
 * programs that know nothing about tasks. Declares nothing.
 */
export async function isCeleryQueue(model: ChannelModel, queue: string): Promise<boolean> {
  if (!(await isThere(model, queue))) return false;
  try {
    await withChannel(model, queue, channel => channel.checkExchange(queue));
    return true;
  } catch (error) {
    if (replyCode(error) === NOT_FOUND) return false;
    throw error;
  }
}

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
  try {
    await withChannel(model, exchange, channel => channel.checkExchange(exchange));
  } catch (error) {
    if (replyCode(error) !== NOT_FOUND) throw error;
    await withChannel(model, exchange, channel =>
      channel.assertExchange(exchange, type, { durable }),
    );
  }
}

/**
 * We publish to the default exchange, so a process that may not declare one, or finds another there, goes on without it.
 */
async function bind(model: ChannelModel, queue: string): Promise<void> {
  try {
    await withChannel(model, queue, async channel => {
      await channel.assertExchange(queue, 'direct', { durable: true });
      await channel.bindQueue(queue, queue, queue);
    });
  } catch (error) {
    if (replyCode(error) === null) throw error;
  }
}
