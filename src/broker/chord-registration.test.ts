import { expect, it } from 'vitest';
import { RabbitBroker } from '../adapters/rabbitmq/rabbitmq-broker.ts';
import { readBroker, type RabbitTarget } from '../config/broker-target.ts';
import { withChordRegistration } from './destination-guard.ts';

it('has every method of the broker that it wraps', () => {
  const target = readBroker({ url: 'amqp://localhost', replies: 'on' }, 'broker') as RabbitTarget;
  const nothing = (): void => undefined;
  const broker = new RabbitBroker(target, { onTrouble: nothing, onBlocked: nothing });
  const announced = withChordRegistration(broker, () => Promise.resolve());
  const own = Object.getOwnPropertyNames(RabbitBroker.prototype);
  const offered = [...own, ...Object.keys(broker)].filter(name => name !== 'constructor');
  expect(offered).toContain('requeue');
  expect(Object.keys(announced).toSorted()).toEqual(offered.toSorted());
});
