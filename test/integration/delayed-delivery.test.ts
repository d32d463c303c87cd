import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { delayedRoute } from '../../src/adapters/rabbitmq/delayed-delivery.ts';
import { RabbitBroker } from '../../src/adapters/rabbitmq/rabbitmq-broker.ts';
import { readBroker, type RabbitTarget } from '../../src/config/broker-target.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { until } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';

/** The routing key that kombu makes of 5 seconds. */
const FIVE_SECONDS = '0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.1';

it.each([
  [5_999, `${FIVE_SECONDS}.mail`],
  [999, null],
  [-1, null],
  [2 ** 28 * 1_000, null],
])(
  'a message that waits for %i ms has the routing key that Celery would give it',
  (waitMs, key) => {
    expect(delayedRoute('mail', waitMs)?.routingKey ?? null).toBe(key);
  },
);

describe('a delayed message', () => {
  let rabbit: RabbitInspector;
  let broker: RabbitBroker;
  const [queue, inner] = [unique('delayed'), unique('inner')];
  const troubles: unknown[] = [];

  beforeAll(async () => {
    rabbit = await RabbitInspector.connect();
    const options = { url: rabbitmqUrl(), queueType: 'quorum' };
    broker = new RabbitBroker(readBroker(options, 'broker') as RabbitTarget, {
      onTrouble: error => troubles.push(error),
      onBlocked: () => undefined,
    });
  });

  afterAll(async () => {
    await broker.close();
    for (const one of [queue, inner, `${inner}.${queue}`]) await rabbit.delete(one);
    await rabbit.close();
  });

  it('waits at the broker, and reaches its queue and no other', async () => {
    const soon = makeEnvelope({ queue, etaMs: Date.now() + 1_500 });
    // Celery's own binding of `queue` would also get this one.
    const other = makeEnvelope({ queue: `${inner}.${queue}`, etaMs: Date.now() + 1_500 });
    const later = makeEnvelope({ queue, etaMs: Date.now() + 3_600_000 });
    expect(await broker.publish([soon, other, later])).toEqual(
      Array.from({ length: 3 }, () => ({ status: 'confirmed' })),
    );
    expect(await rabbit.depth(queue)).toBe(0);
    await until(async () => (await rabbit.depth(queue)) === 1);
    await until(async () => (await rabbit.depth(`${inner}.${queue}`)) === 1);
    expect((await rabbit.peek(queue))?.properties.headers).toMatchObject({ id: soon.id });
    expect(troubles).toEqual([]);
  });

  it('belongs to a queue whose exchange is left to Celery', async () => {
    await broker.publish([makeEnvelope({ queue: inner })]);
    const declare = async (type: string) =>
      await rabbit.with(channel => channel.assertExchange(inner, type, { durable: true }));
    await expect(declare('topic')).resolves.toBeDefined();
  });
});
