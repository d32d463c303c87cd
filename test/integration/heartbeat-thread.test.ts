import { expect, it, onTestFinished } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { silentLogger, type Logger } from '../../src/telemetry/logger.ts';
import { HeartbeatClient } from '../../dist/process/heartbeat/heartbeat-client.js';
import { openRedisLedger } from '../../src/adapters/redis/open-redis-ledger.ts';
import { PgDatabase } from '../../src/adapters/postgres/pg-database.ts';
import { PostgresLedger } from '../../src/adapters/postgres/postgres-ledger.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { systemClock } from '../../src/runtime/runtime.ts';
import { unique } from '../conformance/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import { migratedDatabase, until } from '../support/database.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { startRedis } from '../support/redis-server.ts';
import { redisUrl, withDatabase } from '../support/servers.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

it.each([
  ['PostgreSQL', (port: number) => ({ database: `postgres://127.0.0.1:${port}/none` })],
  [
    'Redis',
    (port: number) => ({
      database: 'postgres://127.0.0.1/none',
      broker: `redis://127.0.0.1:${port}`,
    }),
  ],
])(
  'a heartbeat whose %s is unreachable retries, and is not ready before it can beat',
  async (_, at) => {
    const config = resolveConfig({ ...at(await freePort()), worker: { beat: '20ms' } }, {});
    const { log, counts } = counted();
    const heartbeat = new HeartbeatClient(config, log);
    onTestFinished(() => heartbeat.stop());
    let isReady = false;
    void heartbeat.ready().then(() => (isReady = true));
    await until(async () => counts.failed >= 3 || counts.ended > 0);
    expect(isReady).toBe(false);
    // In the first thread: a new one would load everything again.
    expect(counts.ended).toBe(0);
  },
);

/** How often a beat failed, and how often the thread itself ended. */
function counted(): { readonly log: Logger; readonly counts: { failed: number; ended: number } } {
  const counts = { failed: 0, ended: 0 };
  const log: Logger = {
    ...silentLogger,
    warn: () => void (counts.failed += 1),
    error: () => void (counts.ended += 1),
  };
  return { log, counts };
}

/** A server that is killed and started again, as the heartbeat of a worker sees it. */
interface KilledServer {
  readonly kill: () => Promise<void>;
  readonly start: () => Promise<void>;
  readonly config: object;
}

async function killedRedis(): Promise<KilledServer> {
  const redis = await startRedis();
  onTestFinished(() => redis.dispose());
  const config = { database: 'postgres://127.0.0.1/none', broker: redis.url };
  return { kill: () => redis.stop('SIGKILL'), start: () => redis.start(), config };
}

async function killedPostgres(): Promise<KilledServer> {
  const server = await startPostgres();
  onTestFinished(() => server.dispose());
  const config = { database: server.url };
  return { kill: () => server.kill(), start: () => server.start(), config };
}

it.each([
  ['Redis', killedRedis, 12],
  ['PostgreSQL', killedPostgres, 4],
])(
  'a heartbeat survives a %s that is killed again and again, before it is ready and after',
  { timeout: 120_000 },
  async (_, open, rounds) => {
    const { kill, start, config } = await open();
    const resolved = resolveConfig({ ...config, worker: { lease: '1s', beat: '50ms' } }, {});
    const { log, counts } = counted();
    const heartbeats: HeartbeatClient[] = [];
    onTestFinished(
      async () => void (await Promise.all(heartbeats.map(heartbeat => heartbeat.stop()))),
    );
    for (let round = 0; round < rounds; round++) {
      const heartbeat = new HeartbeatClient(resolved, log);
      heartbeats.push(heartbeat);
      // The ones before it beat; this one may still be connecting.
      await kill();
      const { failed } = counts;
      await until(async () => counts.failed > failed || counts.ended > 0);
      await start();
      await heartbeat.ready();
      heartbeat.beatFor(unique('worker'), systemClock.monotonic(), () => undefined);
    }
    expect(counts.ended).toBe(0);
  },
);

it('a heartbeat without tables leaves it to its worker to report that', async () => {
  const bare = await withDatabase('bare_heartbeat');
  onTestFinished(() => bare.drop());
  const config = resolveConfig({ database: bare.url, worker: { beat: '20ms' } }, {});
  const heartbeat = new HeartbeatClient(config, silentLogger);
  onTestFinished(() => heartbeat.stop());
  await heartbeat.ready();
});

interface Target {
  readonly ledger: Ledger;
  readonly url: string;
  /** The configuration of a worker that reaches it by this URL. */
  readonly configFor: (url: string) => object;
}

async function onPostgres(): Promise<Target> {
  const database = await migratedDatabase('heartbeat');
  onTestFinished(() => database.dispose());
  const { url } = database;
  const db = await PgDatabase.open({ url, poolSize: 1, queryTimeoutMs: 30_000 });
  onTestFinished(() => db.close());
  return { ledger: new PostgresLedger(db), url, configFor: through => ({ database: through }) };
}

async function onRedis(): Promise<Target> {
  const options = { generations: null, beginsWhenFull: false, celeryResultMs: 0 };
  // A separate database, because leases of other tests would be judged here too.
  const { href: url } = new URL('/9', redisUrl());
  const opened = await openRedisLedger(url, options);
  onTestFinished(() => opened.close());
  const database = 'postgres://127.0.0.1/none';
  const configFor = (through: string): object => ({ database, broker: through });
  return { ledger: opened.ledger, url, configFor };
}

it.each([
  ['PostgreSQL', onPostgres],
  ['Redis', onRedis],
])('a lease on %s outlives the connection of its heartbeats', async (_, open) => {
  const { ledger, url, configFor } = await open();
  const proxy = await TcpProxy.to(url);
  onTestFinished(() => proxy.close());
  const worker = { lease: '3600ms', beat: '1200ms' } as const;
  const config = resolveConfig({ ...configFor(proxy.url(url)), worker }, {});
  const heartbeat = new HeartbeatClient(config, silentLogger);
  onTestFinished(() => heartbeat.stop());
  await heartbeat.ready();
  const name = unique('worker');
  const opening = { worker: name, process: name, host: 'h', pid: 1, leaseMs: 3_600 };
  const openedAt = systemClock.monotonic();
  await ledger.open(opening);
  const answers: string[] = [];
  heartbeat.beatFor(name, openedAt, ({ reply }) => answers.push(reply.status));
  await until(async () => answers.length > 0);
  // Bytes sent there are lost from now on, and neither end is notified.
  proxy.freeze();
  const before = answers.length;
  await until(async () => {
    await ledger.condemn({ kind: 'expired' });
    return answers.length > before + 1;
  });
  expect(new Set(answers)).toEqual(new Set(['open']));
});
