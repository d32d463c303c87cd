import { RabbitBroker } from '../../src/adapters/rabbitmq/rabbitmq-broker.ts';
import type { RabbitBrokerOptions } from '../../src/adapters/rabbitmq/rabbitmq-broker.ts';
import {
  readBroker,
  type BrokerOptions,
  type RabbitTarget,
} from '../../src/config/broker-target.ts';

/** A RabbitMQ broker for tests; its trouble reports are ignored unless a test asks for them. */
export function rabbitBroker(
  target: BrokerOptions | string,
  options: Partial<RabbitBrokerOptions> = {},
): RabbitBroker {
  return new RabbitBroker(readBroker(target, 'broker') as RabbitTarget, {
    prefetch: 10,
    onTrouble: () => undefined,
    onBlocked: () => undefined,
    ...options,
  });
}
