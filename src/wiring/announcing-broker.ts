import type { Broker } from '../broker/broker.ts';
import { hasFollowUps } from '../task/signature.ts';
import type { Envelope } from '../task/envelope.ts';

/** Told of messages something follows, before they are sent. */
export type Announce = (messages: readonly Envelope[]) => Promise<void>;

/** The same broker, which says what must be known elsewhere before messages are sent: which chords, and how large. */
export function announcing(broker: Broker, announce: Announce | null): Broker {
  if (announce === null) return broker;
  const { isPushing = false } = broker;
  const [reply, silentMs] = [broker.reply?.bind(broker), broker.silentMs?.bind(broker)];
  const forget = broker.forget?.bind(broker);
  return {
    isPushing,
    publish: async messages => {
      try {
        const followed = messages.filter(({ body }) => hasFollowUps(body));
        if (followed.length > 0) await announce(followed);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return messages.map(() => ({ status: 'unavailable', error: why }));
      }
      return await broker.publish(messages);
    },
    take: (queues, limit) => broker.take(queues, limit),
    ack: deliveries => broker.ack(deliveries),
    giveBack: deliveries => broker.giveBack(deliveries),
    onReady: (queues, hint) => broker.onReady(queues, hint),
    ...(forget ? { forget } : {}),
    ...(reply ? { reply } : {}),
    ...(silentMs ? { silentMs } : {}),
    close: () => broker.close(),
  };
}
