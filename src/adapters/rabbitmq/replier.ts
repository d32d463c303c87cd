import type { ConfirmChannel } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { toBytes } from '../../task/json.ts';
import type { Reply } from '../../wire/reply.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { within } from './within.ts';

/** A server reports an alarm only when the first message is already blocked: runs must not wait for it. */
const TIMEOUT_MS = 5_000;

interface OpenChannel {
  readonly link: OpenLink;
  readonly opening: Promise<ConfirmChannel>;
}

/**
 * Answers senders as Celery's `rpc://` does: not persistent, to the sender's own queue. Not `mandatory`: if the queue is
 * gone, no sender waits, and that is fine. On a separate channel from tasks, which need the opposite.
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
      const channel = await within(TIMEOUT_MS, this.#open(link), 'has opened no channel');
      const confirmed = Promise.all(replies.map(reply => send(channel, link, reply)));
      return await within(TIMEOUT_MS, confirmed, 'has confirmed no answer');
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

function send(channel: ConfirmChannel, { pulse }: OpenLink, reply: Reply): Promise<PublishOutcome> {
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
    channel.publish('', replyTo, content, options, (error: unknown) => {
      pulse.answered();
      resolve(error ? unavailable(error) : { status: 'confirmed' });
    });
    pulse.written();
  });
}

const unavailable = (error: unknown): PublishOutcome => ({
  status: 'unavailable',
  error: error instanceof Error ? error.message : String(error),
});
