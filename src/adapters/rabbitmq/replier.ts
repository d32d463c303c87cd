import type { ConfirmChannel } from 'amqplib';
import type { PublishOutcome } from '../../broker/broker.ts';
import { toBytes } from '../../task/json.ts';
import { CONTROL_EXCHANGE } from '../../wire/headers.ts';
import { writeRevoke } from '../../wire/control-message.ts';
import type { Reply } from '../../wire/reply.ts';
import { toDriverTable } from './field-table.ts';
import type { OpenLink, RabbitLink } from './rabbitmq-link.ts';
import { CONTROL_SHAPE, ensureExchange } from './topology.ts';
import { within } from './with-channel.ts';

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
      const link = await this.#unblocked();
      const channel = await within(TIMEOUT_MS, this.#open(link), 'has opened no channel');
      const sending = replies.map(reply => send(channel, link, noticeOf(reply)));
      return await within(TIMEOUT_MS, Promise.all(sending), 'has confirmed no answer');
    } catch (error) {
      return replies.map(() => unavailable(error));
    }
  }

  /** Requests of remote control go the same way: to every node that listens, if there is one. */
  async revoke(id: string): Promise<void> {
    const link = await this.#unblocked();
    // Publishing to an exchange that is not there would close the channel.
    const known = ensureExchange(link.model, CONTROL_EXCHANGE, CONTROL_SHAPE);
    await within(TIMEOUT_MS, known, 'has no exchange for remote control');
    const channel = await within(TIMEOUT_MS, this.#open(link), 'has opened no channel');
    const { headers, body } = writeRevoke(id);
    const notice = { exchange: CONTROL_EXCHANGE, routingKey: '', body, headers };
    const sent = await within(TIMEOUT_MS, send(channel, link, notice), 'has confirmed no request');
    if (sent.status === 'unavailable') throw new Error(sent.error);
  }

  async #unblocked(): Promise<OpenLink> {
    const link = await this.#link.open();
    const reason = link.blocked();
    if (reason !== null) throw new Error(`RabbitMQ takes no messages at the moment: ${reason}`);
    return link;
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

/** A message that is worth nothing after a restart. */
interface Notice {
  readonly exchange: string;
  readonly routingKey: string;
  readonly body: Uint8Array;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly correlationId?: string;
}

const noticeOf = ({ replyTo, correlationId, body }: Reply): Notice => ({
  exchange: '',
  routingKey: replyTo,
  body: toBytes(body),
  correlationId,
});

function send(
  channel: ConfirmChannel,
  { pulse }: OpenLink,
  notice: Notice,
): Promise<PublishOutcome> {
  const { exchange, routingKey, body, headers, correlationId } = notice;
  const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return new Promise(resolve => {
    const options = {
      contentType: 'application/json',
      contentEncoding: 'utf-8',
      deliveryMode: 1,
      priority: 0,
      ...(correlationId === undefined ? {} : { correlationId }),
      ...(headers === undefined ? {} : { headers: toDriverTable(headers) }),
    };
    channel.publish(exchange, routingKey, content, options, (error: unknown) => {
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
