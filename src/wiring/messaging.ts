import { isRedisCluster, isSameRedis } from '../adapters/redis/redis-url.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { BrokerParts } from './open-broker.ts';

/** A ledger in Redis, and how it is used there. */
export interface LedgerParts {
  readonly url: string;
  readonly beginsWhenFull: boolean;
  readonly celeryResultMs: number;
}

/** What is not in the database; nothing where all of it is. */
export interface Messaging {
  readonly broker?: BrokerParts;
  readonly ledger?: LedgerParts;
}

export function messagingOf(
  config: Pick<ResolvedConfig, 'broker' | 'ledger' | 'worker'>,
  log: Logger,
): Messaging {
  const { broker: target, worker } = config;
  const ledger = ledgerParts(config);
  return {
    ...(target === null ? {} : { broker: { target, prefetch: worker.concurrency, log } }),
    ...(ledger === null ? {} : { ledger }),
  };
}

/** Null: the ledger is in the database. */
export function ledgerParts({
  broker,
  ledger,
  worker,
}: Pick<ResolvedConfig, 'broker' | 'ledger' | 'worker'>): LedgerParts | null {
  if (ledger.kind === 'database') return null;
  const { url } = ledger;
  return {
    url,
    beginsWhenFull: broker?.kind === 'redis' && isSameRedis(broker.url, url),
    // Python's AsyncResult looks there; Celery knows no cluster.
    celeryResultMs: isRedisCluster(url) ? 0 : worker.resultTtlMs,
  };
}
