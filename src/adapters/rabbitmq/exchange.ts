import type { ChannelModel } from 'amqplib';
import { replyCode } from './rabbitmq-errors.ts';
import { withChannel } from './with-channel.ts';

const NOT_FOUND = 404;

/** Whether there is an exchange of this name, of any type. */
export async function isExchange(model: ChannelModel, exchange: string): Promise<boolean> {
  try {
    await withChannel(model, exchange, channel => channel.checkExchange(exchange));
    return true;
  } catch (error) {
    if (replyCode(error) === NOT_FOUND) return false;
    throw error;
  }
}
