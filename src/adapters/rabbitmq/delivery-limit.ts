import type { ChannelModel } from 'amqplib';
import { type Check, advise, ok, problem } from '../../telemetry/checkup.ts';
import { replyCode } from './rabbitmq-errors.ts';
import { withChannel } from './with-channel.ts';

const PRECONDITION_FAILED = 406;
/** What RabbitMQ itself takes where nothing is said, from version 4 on. */
const USUAL = 20;
/** A drained worker, a cut connection or a ledger that is away each give a message back once. */
const ENOUGH = 100;
const HAS_DEFAULT_FROM = 4;

const ADVICE =
  'Raise it with a policy, or declare the queue anew: rabbitmqctl set_policy limits "^QUEUE$" \'{"delivery-limit": 1000}\' --apply-to queues. A policy is not seen here.';

/**
 * AMQP tells the arguments of a queue only where it refuses others. So the queue is declared once more: one that is there answers that
 * its limit is another, and one that is gone is not made, because there is no such locator. Both are refused.
 */
const IMPOSSIBLE = {
  'x-queue-type': 'quorum',
  'x-delivery-limit': 'none',
  'x-queue-leader-locator': 'none',
};

async function askLimit(model: ChannelModel, queue: string): Promise<string> {
  try {
    await withChannel(model, queue, channel =>
      channel.assertQueue(queue, { durable: true, arguments: IMPOSSIBLE }),
    );
  } catch (error) {
    if (replyCode(error) === PRECONDITION_FAILED && error instanceof Error) return error.message;
  }
  return '';
}

/** Null: it is no quorum queue, or RabbitMQ tells something else first, such as where dead letters go: then nothing is lost. */
export async function checkDeliveryLimit(
  model: ChannelModel,
  queue: string,
): Promise<Check | null> {
  const answer = await askLimit(model, queue);
  const found =
    /inequivalent arg 'x-delivery-limit' .*\bcurrent is (?:none|(?:the value )?'(-?\d+)')/.exec(
      answer,
    );
  if (found === null) return null;
  const limit = found[1] === undefined ? null : Number(found[1]);
  const details = { queue, limit };
  const drops = 'and drops a message that was given back more often';
  if (limit === null) {
    const version = model.connection.serverProperties.version;
    if (Number.parseInt(version, 10) < HAS_DEFAULT_FROM)
      return ok('deliveries', `quorum queue ${queue} has no delivery limit`, details);
    const message = `quorum queue ${queue} has the delivery limit of RabbitMQ, ${USUAL}, ${drops}`;
    return advise('deliveries', message, ADVICE, details);
  }
  const message = `quorum queue ${queue} has a delivery limit of ${limit}, ${drops}`;
  if (limit >= 0 && limit < USUAL) return problem('deliveries', message, ADVICE, details);
  if (limit >= 0 && limit < ENOUGH) return advise('deliveries', message, ADVICE, details);
  return ok('deliveries', `quorum queue ${queue} gives up on no message early`, details);
}
