import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import { openBroker } from '../../src/context/open-broker.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { handlerOf, startFleetWorker } from '../interop/fleet-kit.ts';
import { gate, migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { rabbitmqUrl, redisUrl } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let database: MigratedDatabase;
beforeAll(async () => {
  database = await migratedDatabase('halfopen');
});
afterAll(() => database.dispose());

async function publisherOn(url: string) {
  const config = resolveConfig({ database: database.url, broker: url }, {});
  if (config.broker === null) throw new Error('there is no broker');
  const { broker: target, maxMessageBytes } = config;
  const broker = await openBroker({ target, prefetch: 10, maxMessageBytes, log: silentLogger });
  onTestFinished(() => broker.close());
  return broker;
}

describe.each([
  ['RabbitMQ', () => `${rabbitmqUrl()}?heartbeat=1`],
  ['Redis', () => redisUrl()],
] as const)('a worker on %s whose connections are half open', (_, urlOf) => {
  it('recovers by itself, runs the tasks sent meanwhile, and nothing twice', async () => {
    const proxy = await TcpProxy.to(urlOf());
    onTestFinished(() => proxy.close());
    const queue = unique('halfopen');
    const [began, goesOn] = [gate<string>(), gate()];
    const ran: string[] = [];
    const handlers = [
      handlerOf('half.quick', queue, (_args, { id }) => ran.push(id)),
      handlerOf('half.slow', queue, async (_args, { id }) => {
        ran.push(id);
        began.open(id);
        await goesOn.opened;
        return 'done';
      }),
    ];
    const { stores } = await startFleetWorker({
      database: database.url,
      broker: proxy.url(urlOf()),
      handlers,
    });
    const direct = await publisherOn(urlOf());
    const slow = makeEnvelope({ name: 'half.slow', queue });
    await direct.publish([slow]);
    await began.opened;
    expect(stores.broker.silentMs?.([queue])).not.toBeNull();
    proxy.freeze();
    const sent = Array.from({ length: 5 }, () => makeEnvelope({ name: 'half.quick', queue }));
    await direct.publish(sent);
    // Its run is settled while the broker cannot be reached; the copy comes back, and the ledger answers for it.
    goesOn.open();
    await until(async () => sent.every(({ id }) => ran.includes(id)));
    await until(async () => (stores.broker.silentMs?.([queue]) ?? Infinity) < 5_000);
    expect(ran.toSorted()).toEqual([slow.id, ...sent.map(({ id }) => id)].toSorted());
    await until(async () => (await stores.results.read(slow.id)).state === 'done');
    // Anything left at the broker is a copy of a task that ran.
    await stores.broker.close();
    await until(async () => {
      const left = await direct.take([queue], 10);
      const isOurs = (id: string): boolean => ran.includes(id);
      for (const { message } of left) expect(!('raw' in message) && isOurs(message.id)).toBe(true);
      await direct.ack(left);
      return left.length === 0;
    });
  });
});
