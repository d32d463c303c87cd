import {
  RabbitBroker,
  type RabbitBrokerOptions,
} from '../../src/adapters/rabbitmq/rabbitmq-broker.ts';
import {
  type BrokerOptions,
  type RabbitTarget,
  readBroker,
} from '../../src/config/broker-target.ts';
import { systemClock } from '../../src/runtime/runtime.ts';
import { PushWindows } from '../../src/worker/flow/queue-windows.ts';

/** What a worker of one queue, or of several that share, lets a broker push. */
export const pushDemand = (
  concurrency: number,
  ackOn: 'commit' | 'begin' = 'commit',
): PushWindows => new PushWindows(systemClock, { concurrency, queues: 1, ackOn });

/** A RabbitMQ broker for tests; its trouble reports are ignored unless a test asks for them. */
export function rabbitBroker(
  target: BrokerOptions | string,
  { slots = 10, ...options }: Partial<RabbitBrokerOptions> & { readonly slots?: number } = {},
): RabbitBroker {
  const read = readBroker(target, 'broker') as RabbitTarget;
  const broker = new RabbitBroker(read, {
    onTrouble: () => undefined,
    onBlocked: () => undefined,
    ...options,
  });
  broker.pushWithin(pushDemand(slots, read.ackOn));
  return broker;
}
