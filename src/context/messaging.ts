import { isRedisCluster, isSameRedis } from '../adapters/redis/redis-url.ts';
import type { SendTarget, WriterOptions } from '../adapters/sql/dialect.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { BrokerParts } from './open-broker.ts';

/** A ledger in Redis, and how it is used there. */
export interface LedgerParts {
  readonly url: string;
  readonly beginsWhenFull: boolean;
  readonly celeryResultMs: number;
  /** The most urgent priority is 0, as with Celery on Redis. */
  readonly isZeroFirst: boolean;
}

/** Null: the database is the broker. */
export function brokerParts(
  { broker: target, maxMessageBytes }: Pick<ResolvedConfig, 'broker' | 'maxMessageBytes'>,
  log: Logger,
): BrokerParts | null {
  if (target === null) return null;
  return { target, maxMessageBytes, log };
}

/** A named outbox is in a database of its own, and what is sent there is published like anything else. */
const sendTargetOf = ({
  config,
  outbox,
}: {
  readonly config: Pick<ResolvedConfig, 'broker'>;
  readonly outbox: object | null;
}): SendTarget => (config.broker === null && outbox === null ? 'ledger' : 'outbox');

/** How the writers of an instance write. That a broker has to be named is logged once. */
export function writerOptions({ config, outbox, log }: Writing): WriterOptions {
  let isLogged = false;
  const onRelayed = (): void => {
    if (isLogged) return;
    isLogged = true;
    log.warn(
      { option: 'broker' },
      'relays take the tasks of this database to a broker, and none is configured here: tasks are sent through the outbox, ' +
        'but their results and `cancel` are not found. Set OUTLAST_BROKER_URL and OUTLAST_LEDGER_URL as for the workers. ' +
        'If that broker is no longer used: npx outlast move.',
    );
  };
  return { target: sendTargetOf({ config, outbox }), onRelayed };
}

interface Writing {
  readonly config: Pick<ResolvedConfig, 'broker'>;
  readonly outbox: object | null;
  readonly log: Logger;
}

/**
 * Where the parts of our chords are reported. Null: no report is needed, because Celery's workers count where our ledger
 * does, or because there are none: what is in the database only we run.
 */
export function chordQueueOf(
  config: Pick<ResolvedConfig, 'broker' | 'ledger' | 'worker'>,
): string | null {
  const ledger = ledgerParts(config);
  return (ledger?.celeryResultMs ?? 0) > 0 ? null : (config.broker?.chordQueue ?? null);
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
    isZeroFirst: broker?.kind === 'redis',
  };
}
