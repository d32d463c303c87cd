import type { Broker } from './broker.ts';
import { hasFollowUps } from '../task/signature.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Reply } from '../wire/reply.ts';

/** Called with messages that have follow-ups, before they are sent. */
export type Announce = (messages: readonly Envelope[]) => Promise<void>;

/** Returns the message to send: the same task. */
export type Renew = (message: Envelope) => Envelope;

/** Called with answers to senders, before they are sent. */
export type Store = (replies: readonly Reply[]) => Promise<void>;

/**
 * The same broker, which registers chords and their sizes before it sends messages. A message whose signature expires
 * soon is signed again.
 */
export function announcing(
  broker: Broker,
  announce: Announce | null,
  renew?: Renew,
  store?: Store,
): Broker {
  if (announce === null && renew === undefined) return broker;
  const { hasQueues = false } = broker;
  const [reply, silentMs] = [replyOf(broker, store), broker.silentMs?.bind(broker)];
  const [forget, requeue] = [broker.forget?.bind(broker), broker.requeue?.bind(broker)];
  const [blockedBy, pushWithin] = [broker.blockedBy?.bind(broker), broker.pushWithin?.bind(broker)];
  const revoke = broker.revoke?.bind(broker);
  return {
    hasQueues,
    publish: async (messages, manner) => {
      try {
        const followed = announce === null ? [] : messages.filter(({ body }) => hasFollowUps(body));
        if (followed.length > 0) await announce?.(followed);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return messages.map(() => ({ status: 'unavailable', error: why }));
      }
      return await broker.publish(renew ? messages.map(renew) : messages, manner);
    },
    take: (queues, limit) => broker.take(queues, limit),
    ack: deliveries => broker.ack(deliveries),
    giveBack: deliveries => broker.giveBack(deliveries),
    onReady: (queues, hint) => broker.onReady(queues, hint),
    ...(pushWithin ? { pushWithin } : {}),
    ...(forget ? { forget } : {}),
    ...(requeue ? { requeue } : {}),
    ...(blockedBy ? { blockedBy } : {}),
    ...(reply ? { reply } : {}),
    ...(revoke ? { revoke } : {}),
    ...(silentMs ? { silentMs } : {}),
    close: () => broker.close(),
  };
}

/** Answers are stored first: a caller that waits there has no queue, and the broker confirms that too. */
function replyOf(broker: Broker, store: Store | undefined): Broker['reply'] {
  const reply = broker.reply?.bind(broker);
  if (reply === undefined || store === undefined) return reply;
  return async replies => {
    try {
      await store(replies);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return replies.map(() => ({ status: 'unavailable', error: why }));
    }
    return await reply(replies);
  };
}
