import { redisFixture } from '../support/redis-broker.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { redisUrl } from '../support/servers.ts';
import { describeBroker } from './broker.ts';

describeBroker('Redis', async () => redisFixture(redisUrl()), { urgent: 0 });

describeBroker(
  'Redis Cluster',
  async () => {
    const cluster = await startRedisCluster();
    const nodes = cluster.nodes.map(({ url }) => url);
    const fixture = redisFixture(cluster.url, nodes);
    return {
      ...fixture,
      dispose: async () => {
        await fixture.dispose();
        await cluster.dispose();
      },
    };
  },
  { urgent: 0 },
);
