import type { AdmissionStore } from '../../admission/admission-store.ts';
import { maskUrl } from '../../errors/mask-secrets.ts';
import { outlastError } from '../../errors/error.ts';
import type { Evacuation } from '../../ledger/evacuation.ts';
import type { GenerationStore } from '../../ledger/generation-store.ts';
import type { ControlStore } from '../../ledger/control-store.ts';
import type { IdempotencyStore } from '../../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { LateQueue } from '../../ledger/queue-check.ts';
import type { ResultStore } from '../../result/result-store.ts';
import type { Envelope } from '../../task/envelope.ts';
import { LUA } from './lua.generated.ts';
import { RedisAdmissionStore } from './redis-admission-store.ts';
import { RedisClusterLedger } from './redis-cluster-ledger.ts';
import { RedisControlStore } from './redis-control-store.ts';
import { RedisConnection } from './redis-connection.ts';
import { redisEvacuation } from './redis-evacuation.ts';
import type { RootsOf } from './redis-find.ts';
import { RedisGeneration } from './redis-generation.ts';
import { rankBy } from './redis-keys.ts';
import { RedisIdempotencyStore } from './redis-idempotency-store.ts';
import { RedisLedgerReads } from './redis-ledger-reads.ts';
import type { RedisLedgerOptions } from './redis-ledger-options.ts';
import { RedisLedger } from './redis-ledger.ts';
import { RedisPartitions, ROOT } from './redis-partitions.ts';
import { checkRedis } from './redis-preflight.ts';
import { RedisResultStore } from './redis-result-store.ts';
import { parseRedisUrl } from './redis-url.ts';

export interface OpenRedisLedgerOptions extends RedisLedgerOptions {
  /** Counts how often the ledger lost its memory. Null, where there is no database: then the server's clock is used. */
  readonly generations: GenerationStore | null;
}

/** All ports on one Redis. */
export interface RedisLedgerStores {
  readonly ledger: Ledger;
  readonly control: ControlStore;
  readonly reads: LedgerReads;
  readonly results: ResultStore;
  readonly idempotency: IdempotencyStore;
  readonly admission: AdmissionStore;
  readonly evacuation: Evacuation;
  /** Refuses a Redis that may evict data with ERR_CONFIG_TIER; returns warnings about what it does not persist. */
  preflight(): Promise<readonly string[]>;
  /** By the server's clock. */
  nowMs(): Promise<number>;
  /** Incarnations whose lease ended longer ago than this, and that no process has closed. */
  countOverdue(sinceMs: number): Promise<number>;
  /** Queues with tasks due for longer than this, from which no live worker takes. */
  lateQueues(sinceMs: number): Promise<readonly LateQueue[]>;
  /** Called with messages about to be sent, where Celery's workers may run them; null where they cannot. */
  readonly announce: ((messages: readonly Envelope[]) => Promise<void>) | null;
  close(): Promise<void>;
}

/** Reads the URL and loads the driver; connects on first use. */
export async function openRedisLedger(
  url: string,
  options: OpenRedisLedgerOptions,
): Promise<RedisLedgerStores> {
  const name = `outlast-ledger-${process.pid}`;
  const connection = await RedisConnection.open({ url, role: 'ledger', name });
  const { ledger, roots, controlRoot } = connection.isCluster
    ? onCluster(connection, url, options)
    : onServer(connection, url, options);
  const control = new RedisControlStore(connection, controlRoot);
  return {
    ledger,
    control,
    reads: new RedisLedgerReads(connection, roots, ledger.chords),
    results: new RedisResultStore(connection, roots),
    idempotency: new RedisIdempotencyStore(connection),
    admission: new RedisAdmissionStore(connection, roots),
    evacuation: redisEvacuation(connection, roots, rankBy(options.isZeroFirst ?? false)),
    preflight: async () => await checkRedis(connection, await roots(), { option: 'ledger', url }),
    nowMs: () => timeOf(connection),
    countOverdue: async sinceMs => await countOverdue(connection, await roots(), sinceMs),
    lateQueues: async sinceMs => await lateQueues(connection, await roots(), control, sinceMs),
    announce: options.celeryResultMs === 0 ? null : messages => ledger.chords.announce(messages),
    close: () => ledger.close(),
  };
}

async function timeOf(connection: RedisConnection): Promise<number> {
  const [seconds, micros] = (await connection.command('time')) as readonly [Buffer, Buffer];
  return Number(String(seconds)) * 1_000 + Number(String(micros)) / 1_000;
}

/** The first root lists every incarnation. */
async function countOverdue(
  connection: RedisConnection,
  [root = '']: readonly string[],
  sinceMs: number,
): Promise<number> {
  const beforeMs = Math.floor(await timeOf(connection)) - sinceMs;
  return Number(await connection.command('zcount', `${root}leases`, '-inf', `(${beforeMs}`));
}

async function lateQueues(
  connection: RedisConnection,
  roots: readonly string[],
  control: ControlStore,
  sinceMs: number,
): Promise<readonly LateQueue[]> {
  const perRoot = await Promise.all(
    roots.map(root => connection.script(LUA.ledgerLate, [root], [sinceMs])),
  );
  const found = perRoot.flat() as readonly (readonly [Buffer, number])[];
  const taken = new Set((await control.consumers()).flatMap(({ queues }) => queues));
  const paused = await control.paused();
  return found
    .map(([name, waiting]) => ({ queue: String(name), waiting }))
    .filter(({ queue }) => !taken.has(queue))
    .map(one => ({ ...one, isPaused: paused.includes(one.queue) }))
    .sort((a, b) => (a.queue < b.queue ? -1 : 1));
}

interface Opened {
  readonly ledger: RedisLedger | RedisClusterLedger;
  readonly roots: RootsOf;
  readonly controlRoot: string;
}

function onServer(
  connection: RedisConnection,
  url: string,
  options: OpenRedisLedgerOptions,
): Opened {
  const location = { root: ROOT, node: nodeOf(url) };
  const generation = new RedisGeneration(connection, location, options.generations);
  const ledger = new RedisLedger(connection, ROOT, generation, options);
  return { ledger, roots: async () => [ROOT], controlRoot: `${ROOT}control:` };
}

function onCluster(
  connection: RedisConnection,
  url: string,
  options: OpenRedisLedgerOptions,
): Opened {
  if (options.celeryResultMs > 0) {
    throw outlastError('ERR_CONFIG_TIER', {
      message: `Celery cannot read results from the Redis Cluster at ${maskUrl(url)}`,
      hint: 'Name another Redis for results, or do without results for Python.',
      fields: { option: 'ledger' },
    });
  }
  const parts = new RedisPartitions(connection, { ...options, node: nodeOf(url), prefix: '' });
  const ledger = new RedisClusterLedger(connection, parts);
  return {
    ledger,
    roots: isFresh => parts.roots(isFresh),
    controlRoot: `${parts.homeRoot}control:`,
  };
}

/**
 * Its address without user and password: the name under which its generation is remembered. Two names for one server do
 * no harm: a generation never falls below the one stored on the server.
 */
function nodeOf(url: string): string {
  const { kind, addresses, service, db } = parseRedisUrl(url, 'ledger');
  const where = addresses.map(({ host, port }) => `${host}:${port}`).sort();
  return [kind, service === '' ? where.join(',') : service, db].join('/');
}
