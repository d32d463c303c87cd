import type { Broker } from '../broker/broker.ts';
import type { BrokerTarget } from '../config/broker-target.ts';
import { systemClock } from '../runtime/runtime.ts';
import type { Logger } from '../telemetry/logger.ts';

/** A broker beside the database, and what it needs to know of its process. */
export interface BrokerParts {
  readonly target: BrokerTarget;
  /** The largest message that is taken whole. */
  readonly maxMessageBytes: number;
  readonly log: Logger;
}

/** Nothing is connected before it is needed. */
export async function openBroker(parts: BrokerParts): Promise<Broker> {
  const { target, maxMessageBytes, log } = parts;
  switch (target.kind) {
    case 'rabbitmq': {
      const { RabbitBroker } = await import('../adapters/rabbitmq/rabbitmq-broker.ts');
      return new RabbitBroker(target, {
        maxMessageBytes,
        onTrouble: seldom(error => log.warn({ error }, 'RabbitMQ cannot be used; trying again')),
        onBlocked: reason =>
          reason === null
            ? log.info({}, 'RabbitMQ takes messages again')
            : log.warn({ reason }, 'RabbitMQ has blocked publishers'),
      });
    }
    case 'redis': {
      const { openRedisBroker } = await import('../adapters/redis/redis-broker.ts');
      return await openRedisBroker(target.url, { maxMessageBytes });
    }
  }
}

/** Every queue tells of the same outage, and again with every attempt: once a minute is enough. */
const REPEAT_MS = 60_000;

function seldom(tell: (error: unknown) => void): (error: unknown) => void {
  const toldAt = new Map<string, number>();
  return error => {
    const text = String(error);
    const now = systemClock.monotonic();
    if (now - (toldAt.get(text) ?? -Infinity) < REPEAT_MS) return;
    if (toldAt.size > 100) toldAt.clear();
    toldAt.set(text, now);
    tell(error);
  };
}
