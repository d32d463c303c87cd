import type { Channel, ChannelModel } from 'amqplib';
import { replyCode } from './rabbitmq-errors.ts';

export interface QueueShape {
  readonly queueType: 'classic' | 'quorum';
  /** Celery's `task_queue_max_priority`; null: no priorities, as Celery declares by default. */
  readonly maxPriority: number | null;
}

const [NOT_FOUND, PRECONDITION_FAILED] = [404, 406];

/**
 * Makes sure that a queue is there. One that is there is taken as it is: declaring it with other arguments than
 * Celery did closes the channel. A missing one is declared as Celery does it: queue, direct exchange and binding, all of
 * the same name, all durable.
 */
export async function ensureQueue(
  model: ChannelModel,
  queue: string,
  shape: QueueShape,
): Promise<void> {
  if (await isThere(model, queue)) return;
  try {
    await withChannel(model, async channel => {
      await channel.assertQueue(queue, { durable: true, arguments: argumentsOf(shape) });
    });
  } catch (error) {
    // Somebody else has declared it in between, in another shape.
    if (replyCode(error) === PRECONDITION_FAILED && (await isThere(model, queue))) return;
    throw error;
  }
  await bind(model, queue);
}

async function isThere(model: ChannelModel, queue: string): Promise<boolean> {
  try {
    await withChannel(model, channel => channel.checkQueue(queue));
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

/** The same for an exchange: whoever came first has decided what it is like. */
export async function ensureExchange(
  model: ChannelModel,
  exchange: string,
  { type, durable }: ExchangeShape,
): Promise<void> {
  try {
    await withChannel(model, channel => channel.checkExchange(exchange));
  } catch (error) {
    if (replyCode(error) !== NOT_FOUND) throw error;
    await withChannel(model, channel => channel.assertExchange(exchange, type, { durable }));
  }
}

/** We publish to the default exchange, so whoever may not declare one, or finds another there, does without. */
async function bind(model: ChannelModel, queue: string): Promise<void> {
  try {
    await withChannel(model, async channel => {
      await channel.assertExchange(queue, 'direct', { durable: true });
      await channel.bindQueue(queue, queue, queue);
    });
  } catch (error) {
    if (replyCode(error) === null) throw error;
  }
}

/** A channel of its own: what the server refuses closes it. */
async function withChannel<T>(
  model: ChannelModel,
  use: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await model.createChannel();
  let isOpen = true;
  channel.on('error', () => undefined);
  channel.on('close', () => (isOpen = false));
  try {
    return await use(channel);
  } finally {
    if (isOpen) await channel.close();
  }
}
