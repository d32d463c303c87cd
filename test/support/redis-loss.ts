import { readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { withRedis } from './redis-broker.ts';
import { startRedis, type OwnRedis } from './redis-server.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** A Redis that will forget what was written after a moment, though it had confirmed it. */
export interface ForgetfulRedis {
  readonly url: string;
  /** All until here stays. */
  mark(): Promise<void>;
  /** It is away while `meanwhile` lasts, and comes back without the rest. */
  forget(meanwhile: () => Promise<void>): Promise<void>;
}

async function own(args: readonly string[]): Promise<OwnRedis> {
  const server = await startRedis(args);
  onTestFinished(() => server.dispose());
  return server;
}

/** Its process is killed, and of its append-only file the end is gone, in the middle of a command. */
export async function redisWithTornFile(): Promise<ForgetfulRedis> {
  const server = await own(['--appendonly', 'yes', '--appendfsync', 'always']);
  const folder = join(server.folder, 'appendonlydir');
  const tail = (): string => {
    const name = readdirSync(folder).find(file => file.endsWith('.incr.aof'));
    return join(folder, name ?? '');
  };
  let kept = 0;
  return {
    url: server.url,
    mark: async () => {
      kept = statSync(tail()).size;
    },
    forget: async meanwhile => {
      await server.stop('SIGKILL');
      truncateSync(tail(), kept + 5);
      await meanwhile();
      await server.start();
    },
  };
}

/** A primary that is killed when its replica has received nothing for a while; the replica replaces it. */
export async function redisWithLateReplica(): Promise<ForgetfulRedis> {
  const primary = await own(['--appendonly', 'yes', '--repl-diskless-sync-delay', '0']);
  const [way, link] = [await TcpProxy.to(primary.url), await TcpProxy.to(primary.url)];
  onTestFinished(() => way.close());
  onTestFinished(() => link.close());
  const { port } = new URL(link.url(primary.url));
  const replica = await own(['--replicaof', '127.0.0.1', port]);
  return {
    url: way.url(primary.url),
    mark: () =>
      withRedis(primary.url, async redis => {
        await redis.command('set', 'mark', '1');
        await redis.command('wait', 1, 0);
        link.silence();
      }),
    forget: async meanwhile => {
      await primary.stop('SIGKILL');
      await meanwhile();
      await withRedis(replica.url, redis => redis.command('replicaof', 'no', 'one'));
      way.redirect(replica.url);
    },
  };
}
