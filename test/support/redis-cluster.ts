import { until } from './database.ts';
import { withRedis } from './redis-broker.ts';
import { freePort, startRedis, type OwnRedis } from './redis-server.ts';

export interface OwnCluster {
  readonly url: string;
  readonly nodes: readonly OwnRedis[];
  dispose(): Promise<void>;
}

const SLOTS = 16_384;

/** A Redis Cluster of three primaries that belongs to one test file. */
export async function startRedisCluster(args: readonly string[] = []): Promise<OwnCluster> {
  const cluster = ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no', ...args];
  const busPorts = await Promise.all([freePort(), freePort(), freePort()]);
  const nodes = await Promise.all(
    busPorts.map(port => startRedis([...cluster, '--cluster-port', String(port)])),
  );
  const bounds = [0, 5_461, 10_922, SLOTS];
  for (const [index, node] of nodes.entries()) {
    await withRedis(node.url, async redis => {
      const last = (bounds[index + 1] ?? SLOTS) - 1;
      await redis.command('cluster', 'addslotsrange', bounds[index] ?? 0, last);
      await redis.command('cluster', 'set-config-epoch', index + 1);
      const [first] = nodes;
      if (first !== undefined && index > 0) {
        await redis.command('cluster', 'meet', '127.0.0.1', first.port, busPorts[0] ?? 0);
      }
    });
  }
  for (const node of nodes) await until(() => isWhole(node));
  return {
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    nodes,
    dispose: async () => {
      for (const node of nodes) await node.dispose();
    },
  };
}

async function isWhole(node: OwnRedis): Promise<boolean> {
  const info = String(await withRedis(node.url, redis => redis.command('cluster', 'info')));
  return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3');
}
