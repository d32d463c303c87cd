import { RedisBroker } from '../../src/adapters/redis/redis-broker.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { RedisHold } from '../../src/adapters/redis/redis-hold.ts';
import type { BrokerFixture } from '../conformance/broker.ts';
import { unique } from '../conformance/envelopes.ts';

/** Longer than any test: a test ends leases itself, so they do not end on a slow machine. */
const LONG_LEASE_MS = 600_000;

/** A broker of which a test sees the inside. */
export interface TestBroker {
  readonly broker: RedisBroker;
  readonly hold: RedisHold;
  readonly connection: RedisConnection;
}

export async function openTestBroker(url: string, leaseMs = LONG_LEASE_MS): Promise<TestBroker> {
  const consumer = unique('consumer');
  const connection = await RedisConnection.open({ url, role: 'broker', name: consumer });
  const hold = new RedisHold(connection, { consumer, leaseMs });
  return { broker: new RedisBroker(connection, hold, { consumer }), hold, connection };
}

/** Brokers on a Redis, or on a cluster with these nodes, each of which can be cut off as a killed process is. */
export function redisFixture(url: string, nodes: readonly string[] = [url]): BrokerFixture {
  const brokers = new Map<unknown, TestBroker>();
  return {
    connect: async () => {
      const opened = await openTestBroker(url);
      brokers.set(opened.broker, opened);
      return opened.broker;
    },
    disconnect: async broker => {
      const dead = brokers.get(broker);
      dead?.connection.close();
      for (const node of nodes) await endLease(node, dead?.broker.consumer ?? '');
    },
    dispose: async () => {
      for (const { broker } of brokers.values()) await broker.close();
    },
  };
}

/** What time does to the lease of a consumer that is gone. */
export async function endLease(url: string, consumer: string): Promise<void> {
  await withRedis(url, async redis => {
    const keys = (await redis.command('keys', 'outlast:*:leases')) as readonly Buffer[];
    for (const key of keys) await redis.command('zadd', key, 'xx', '0', consumer);
  });
}

/** Asks a Redis something, on a connection of its own. */
export async function withRedis<T>(
  url: string,
  ask: (redis: RedisConnection) => Promise<T>,
): Promise<T> {
  const redis = await RedisConnection.open({ url, role: 'broker', name: 'test' });
  try {
    return await ask(redis);
  } finally {
    redis.close();
  }
}
