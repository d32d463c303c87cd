import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  createOutlast,
  isOutlastError,
  startRelay,
  startWorker,
  task,
  unchecked,
  type Outlast,
} from '../../dist/index.js';
import { createAdmin } from '../../dist/admin/index.js';
import { RedisAdmissionStore } from '../../src/adapters/redis/redis-admission-store.ts';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { withRedis } from '../support/redis-broker.ts';
import { startRedis, type OwnRedis } from '../support/redis-server.ts';

let server: OwnRedis;
let database: MigratedDatabase;
let outlast: Outlast;

beforeAll(async () => {
  server = await startRedis(['--maxmemory-policy', 'noeviction', '--appendonly', 'no']);
  database = await migratedDatabase('redis_admission');
  outlast = createOutlast({ database: database.url, broker: server.url });
});

afterAll(async () => {
  await outlast.close();
  await database.dispose();
  await server.dispose();
});

const redis = (name: string, ...args: (string | number)[]): Promise<unknown> =>
  withRedis(server.url, async connection => await connection.command(name, ...args));

const rejectedBy = async (promise: Promise<unknown>): Promise<string | null> => {
  try {
    await promise;
    return null;
  } catch (error) {
    if (isOutlastError(error, 'ERR_ADMISSION_REJECTED')) return error.key;
    throw error;
  }
};

describe('admission in Redis', () => {
  it('refuses over the rate, admits runs up to the limit, and shows both', async () => {
    const busy = task('redis.busy', {
      input: unchecked<number>(),
      queue: 'busy',
      admission: { rate: { limit: 100, per: '1h', burst: 8 }, concurrency: 2 },
    });
    let [running, most, done] = [0, 0, 0];
    const handler = outlast.handler(busy, async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(resolve => setTimeout(resolve, 20));
      running -= 1;
      done += 1;
    });
    for (let n = 0; n < 8; n++) await outlast.push(busy, n);
    expect(await rejectedBy(outlast.push(busy, 8))).toBe('task:redis.busy');
    const worker = await startWorker(outlast, { tasks: [handler], queues: ['busy'] });
    await until(async () => done === 8);
    await worker.stop();
    expect(most).toBe(2);
    const [figures] = await createAdmin(outlast).admission();
    expect(figures).toMatchObject({
      key: 'task:redis.busy',
      available: 0,
      concurrency: 2,
      held: 0,
    });
    expect(figures?.rejected).toBeGreaterThan(0);
  });

  it('lets no more tasks of any kind run at once than the one limit of all', async () => {
    const limited = createOutlast({
      database: database.url,
      broker: server.url,
      admission: { '*': { concurrency: 2 } },
    });
    onTestFinished(() => limited.close());
    const tasks = ['one', 'two', 'three'].map(name => task(`redis.${name}`, { queue: name }));
    let [running, most, done] = [0, 0, 0];
    const handlers = tasks.map(contract =>
      limited.handler(contract, async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise(resolve => setTimeout(resolve, 20));
        running -= 1;
        done += 1;
      }),
    );
    for (const contract of [...tasks, ...tasks]) await limited.push(contract);
    const queues = ['one', 'two', 'three'];
    const worker = await startWorker(limited, { tasks: handlers, queues });
    await until(async () => done === 6);
    await worker.stop();
    expect(most).toBe(2);
  });

  it('sets an expiry on every key but reservations, which end with their runs', async () => {
    const limited = task('redis.limited', { admission: { rate: { limit: 100, per: '1h' } } });
    await outlast.admit(limited);
    const keys = ((await redis('keys', 'outlast:admission:*')) as Buffer[]).map(String);
    expect(keys.some(key => key.includes('permit'))).toBe(true);
    for (const key of keys.filter(one => !one.endsWith(':keys')))
      expect(Number(await redis('pttl', key)), key).toBeGreaterThan(0);
  });

  it('sweeps very many keys in parts, and reaches all of them in turn', async () => {
    const connection = await RedisConnection.open({
      url: server.url,
      role: 'ledger',
      name: 'test',
    });
    onTestFinished(() => connection.close());
    const store = new RedisAdmissionStore(connection, async () => ['outlast:ledger:'], 'many:');
    const keys = Array.from({ length: 6_000 }, (_, n) => `task:many:${n}`);
    const gone = { task: 'nobody', run: 'gone' };
    await Promise.all(keys.map(key => store.reserve({ key, limit: 1, holders: [gone] })));
    const freed: number[] = [];
    const total = (): number => freed.reduce((sum, one) => sum + one, 0);
    while (total() < keys.length) freed.push((await store.sweep(null, 10_000)).freed);
    expect(Math.max(...freed)).toBeLessThan(keys.length);
    expect(total()).toBe(keys.length);
  });

  it('recovers when a key has lost its expiry', async () => {
    const limited = task('redis.endless', {
      admission: { rate: { limit: 10, per: '1s', burst: 1 } },
    });
    await outlast.admit(limited);
    const state = 'outlast:admission:{task:redis.endless}:state';
    expect(await redis('persist', state)).toBe(1);
    await until(async () => (await rejectedBy(outlast.admit(limited))) === null);
    expect(Number(await redis('pttl', state))).toBeGreaterThan(0);
  });

  it('admits nothing while the server is fuller than four fifths, and loses nothing', async () => {
    const plain = task('redis.plain', { queue: 'plain' });
    const used = /used_memory:(\d+)/.exec(String(await redis('info', 'memory')))?.[1];
    await redis('config', 'set', 'maxmemory', Math.floor(Number(used) * 1.1));
    // The memory is read once a second: an earlier figure may be used for so long.
    await until(async () => (await rejectedBy(outlast.push(plain))) === 'store:memory');
    expect(await rejectedBy(outlast.admit(plain))).toBe('store:memory');
    const sent = await outlast.transaction(tx => outlast.send(tx, plain));
    await using relay = await startRelay(outlast, { idleTime: '50ms' });
    const deferred = `select retries from outlast_outbox where available_at > created_at + interval '500 ms'`;
    const row = await until(async () => (await database.pool.query(deferred)).rows[0] as unknown);
    expect(row).toEqual({ retries: 0 });
    await redis('config', 'set', 'maxmemory', 0);
    await until(async () => (await sent.state()) !== 'pending');
    expect(await rejectedBy(outlast.push(plain))).toBeNull();
    await relay.stop();
  });
});
