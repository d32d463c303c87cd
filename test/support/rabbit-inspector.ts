import amqp, { type Channel, type ChannelModel, type GetMessage } from 'amqplib';
import { rabbitmqUrl } from './servers.ts';

/** Looks at a RabbitMQ from outside. Every look has its own channel, because a refusal by the server closes it. */
export class RabbitInspector {
  readonly #model: ChannelModel;

  private constructor(model: ChannelModel) {
    this.#model = model;
    model.on('error', () => undefined);
  }

  static async connect(url: string = rabbitmqUrl()): Promise<RabbitInspector> {
    return new RabbitInspector(await amqp.connect(url));
  }

  async with<T>(use: (channel: Channel) => Promise<T>): Promise<T> {
    const channel = await this.#model.createChannel();
    let isOpen = true;
    channel.on('error', () => undefined);
    channel.on('close', () => (isOpen = false));
    try {
      return await use(channel);
    } finally {
      if (isOpen) await channel.close();
    }
  }

  /** Messages that wait in a queue; null when there is none of that name. */
  async depth(queue: string): Promise<number | null> {
    const found = await this.with(channel => channel.checkQueue(queue)).catch(() => null);
    return found?.messageCount ?? null;
  }

  async consumers(queue: string): Promise<number | null> {
    const found = await this.with(channel => channel.checkQueue(queue)).catch(() => null);
    return found?.consumerCount ?? null;
  }

  /** The first message of a queue, which stays there. */
  async peek(queue: string): Promise<GetMessage | null> {
    return await this.with(async channel => (await channel.get(queue)) || null).catch(() => null);
  }

  /** Deletes a queue and returns how many messages waited there; held messages do not count. */
  async delete(queue: string): Promise<number> {
    return (await this.with(channel => channel.deleteQueue(queue))).messageCount;
  }

  async close(): Promise<void> {
    await this.#model.close();
  }
}
