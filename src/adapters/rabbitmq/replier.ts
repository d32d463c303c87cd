import type { ConfirmChannel } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { systemClock } from '../../runtime/clock.ts';
import { toBytes } from '../../task/json.ts';
import type { Reply } from '../../wire/reply.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';

/** A server tells of an alarm when the first message waits for its end already: runs must not wait with it. */
const PATIENCE_MS = 5_000;

interface OpenChannel {
  readonly link: OpenLink;
  readonly opening: Promise<ConfirmChannel>;
}

/**
 * Answers senders as Celery's `rpc://` does: not kept on disk, to a queue that is the sender's own. Not `mandatory`: where
 * the queue is gone nobody waits, and that is an answer too. On a channel apart from tasks, which want the opposite.
 */
export class Replier {
  readonly #link: RabbitLink;
  #channel: OpenChannel | null = null;

  constructor(link: RabbitLink) {
    this.#link = link;
  }

  async reply(replies: readonly Reply[]): Promise<readonly PublishOutcome[]> {
    try {
      const link = await this.#link.open();
      const reason = link.blocked();
      if (reason !== null) throw new Error(`RabbitMQ takes no messages at the moment: ${reason}`);
      const channel = await this.#open(link);
      return await inTime(Promise.all(replies.map(reply => send(channel, reply))));
    } catch (error) {
      return replies.map(() => unavailable(error));
    }
  }

  #open(link: OpenLink): Promise<ConfirmChannel> {
    if (this.#channel?.link === link) return this.#channel.opening;
    const forget = (): void => {
      if (this.#channel === made) this.#channel = null;
    };
    const opening = link.model.createConfirmChannel();
    const made: OpenChannel = { link, opening };
    this.#channel = made;
    opening.then(channel => channel.on('error', () => undefined).on('close', forget), forget);
    return opening;
  }
}

function inTime<T>(confirmed: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = systemClock.timer(PATIENCE_MS, () =>
      reject(new Error(`RabbitMQ has confirmed no answer for ${PATIENCE_MS} ms`)),
    );
    confirmed.then(resolve, reject).finally(cancel);
  });
}

function send(channel: ConfirmChannel, reply: Reply): Promise<PublishOutcome> {
  const { replyTo, correlationId, body } = reply;
  const bytes = toBytes(body);
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return new Promise(resolve => {
    const options = {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      deliveryMode: 1,
      priority: 0,
      correlationId,
    };
    channel.publish('', replyTo, content, options, (error: unknown) =>
      resolve(error ? unavailable(error) : { status: 'confirmed' }),
    );
  });
}

const unavailable = (error: unknown): PublishOutcome => ({
  status: 'unavailable',
  error: error instanceof Error ? error.message : String(error),
});
