import type { Broker } from '../broker/broker.ts';
import { hasFollowUps } from '../task/signature.ts';
import type { RedisLedgerStores } from '../adapters/redis/open-redis-ledger.ts';

/** The same broker, which says what must be known elsewhere before messages are sent: how large chords are. */
export function announcing(broker: Broker, announce: RedisLedgerStores['announce']): Broker {
  if (announce === null) return broker;
  const { isPushing = false } = broker;
  const [reply, silentMs] = [broker.reply?.bind(broker), broker.silentMs?.bind(broker)];
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
    ...(reply ? { reply } : {}),
    ...(silentMs ? { silentMs } : {}),
    close: () => broker.close(),
  };
}
