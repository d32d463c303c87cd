import { afterAll, beforeAll } from 'vitest';
import { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { RedisControlStore } from '../../src/adapters/redis/redis-control-store.ts';
import { redisUrl } from '../support/servers.ts';
import { describeControlStore } from './control-store.ts';
import { unique } from './envelopes.ts';

let connection: RedisConnection;
const root = `outlast:${unique('control')}:`;

beforeAll(async () => {
  connection = await RedisConnection.open({ url: redisUrl(), role: 'ledger', name: 'test' });
});
afterAll(() => connection.close());

describeControlStore('Redis', () => ({
  control: new RedisControlStore(connection, root),
  advance: async ms => {
    const members = await connection.command('zrange', `${root}consumers`, 0, -1);
    for (const member of members as readonly Buffer[])
      await connection.command('zincrby', `${root}consumers`, -ms, member);
  },
}));
