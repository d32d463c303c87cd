import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './database.ts';
import { withRedis } from './redis-broker.ts';
import { startRedis, type OwnRedis } from './redis-server.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** A primary, its replica, and sentinels that name the one that counts. */
export interface WatchedRedis {
  /** `sentinel://…`, of all of them. */
  readonly url: string;
  /** Whom the sentinels name now. */
  primary(): Promise<OwnRedis>;
  /** The replica has all that was written until now. */
  copied(): Promise<void>;
  /** From here on nothing is replicated, and the replica does not notice. */
  deafen(): void;
  /** Another becomes the primary on request, as for an upgrade; the one before lives on. */
  exchange(): Promise<void>;
  dispose(): Promise<void>;
}

const SERVICE = 'shop';
const SENTINELS = 3;
// A machine that is busy for a moment is no reason for a failover.
const DOWN_AFTER_MS = 2_000;
// How long sentinels wait between two failovers, halved. They also correct a replica that listens to another than they
// think, which is what a proxy between the two looks like: a replica that must stay deaf needs more.
const FAILOVER_MS = { deaf: 60_000, hearing: 3_000 };

/** Starts all of it, and waits until every sentinel knows the others and the replica. */
export async function startWatchedRedis({ canBeDeaf = false } = {}): Promise<WatchedRedis> {
  const first = await startRedis(['--appendonly', 'yes', '--repl-diskless-sync-delay', '0']);
  const link = await TcpProxy.to(first.url);
  const { port } = new URL(canBeDeaf ? link.url(first.url) : first.url);
  const second = await startRedis(['--appendonly', 'yes', '--replicaof', `127.0.0.1 ${port}`]);
  await untilCopied(first);
  const sentinels: OwnRedis[] = [];
  while (sentinels.length < SENTINELS) {
    const file = join(first.folder, `sentinel-${sentinels.length}.conf`);
    sentinels.push(await startSentinel(file, { port: first.port, canBeDeaf }));
  }
  for (const sentinel of sentinels) await until(() => knowsAll(sentinel));
  const primary = async (): Promise<OwnRedis> => {
    const address = (await tell(sentinels[0], 'get-master-addr-by-name', SERVICE)) as unknown[];
    return String(address[1]) === String(second.port) ? second : first;
  };
  return {
    url: `sentinel://${sentinels.map(one => `127.0.0.1:${one.port}`).join(',')}/${SERVICE}/0`,
    primary,
    copied: async () => await untilCopied(await primary()),
    deafen: () => link.silence(),
    exchange: async () => {
      const before = await primary();
      await tell(sentinels[0], 'failover', SERVICE);
      await until(async () => (await primary()) !== before);
    },
    dispose: async () => {
      for (const one of [...sentinels, first, second]) await one.dispose();
      await link.close();
    },
  };
}

interface Watch {
  readonly port: number;
  readonly canBeDeaf: boolean;
}

/** A sentinel keeps its state in its configuration file, so it needs one. */
async function startSentinel(file: string, { port, canBeDeaf }: Watch): Promise<OwnRedis> {
  const lines = [
    'bind 127.0.0.1',
    `sentinel monitor ${SERVICE} 127.0.0.1 ${port} ${SENTINELS - 1}`,
    `sentinel down-after-milliseconds ${SERVICE} ${DOWN_AFTER_MS}`,
    `sentinel failover-timeout ${SERVICE} ${canBeDeaf ? FAILOVER_MS.deaf : FAILOVER_MS.hearing}`,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  return await startRedis([file, '--sentinel']);
}

async function tell(sentinel: OwnRedis | undefined, ...words: readonly string[]): Promise<unknown> {
  const url = `redis://127.0.0.1:${sentinel?.port}`;
  return await withRedis(url, redis => redis.command('sentinel', ...words));
}

async function untilCopied({ url }: OwnRedis): Promise<void> {
  await withRedis(url, async redis => {
    await redis.command('set', 'mark', '1');
    await until(async () => (await redis.command('wait', 1, 1_000)) === 1);
  });
}

async function knowsAll(sentinel: OwnRedis): Promise<boolean> {
  const lists = await Promise.all([
    tell(sentinel, 'replicas', SERVICE),
    tell(sentinel, 'sentinels', SERVICE),
  ]);
  const [copies, others] = lists.map(list => (list as readonly unknown[]).length);
  return copies === 1 && others === SENTINELS - 1;
}
