import { resolvedName, type DurationRow } from '../options/option.ts';
import { WORKER_TABLE } from '../options/worker-table.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { OutboxTarget } from './database-target.ts';
import { isEmbedded } from './database-url.ts';
import type { LedgerTarget } from './messaging.ts';
import type { ResolvedWorkerOptions } from './worker-options.ts';

// One backend serves all clients in embedded mode and a transaction may hold it for seconds: with a shorter lease a busy
// database would look like a dead worker. The supervisor sees the death of a child, so recovery is no slower.
const EMBEDDED: readonly (readonly [string, DurationRow, Duration])[] = Object.entries(
  WORKER_TABLE,
).flatMap(([key, row]) =>
  row.kind === 'duration' && row.embedded !== undefined ? [[key, row, row.embedded] as const] : [],
);

/** A value as given, and its source. */
interface Given {
  readonly value: unknown;
  readonly source: 'flag' | 'env' | 'file' | 'default';
}

interface Embeddable {
  readonly database: OutboxTarget;
  readonly ledger: LedgerTarget;
  readonly worker: ResolvedWorkerOptions;
  readonly settings: Readonly<Record<string, Given>>;
}

/**
 * Leases for an embedded database, unless the user has set them. Applied to every configuration: workers, and the processes
 * that judge whether they are alive, must agree.
 */
export function embeddedDefaults<Config extends Embeddable>(config: Config): Config {
  const isChosen = EMBEDDED.some(([key]) => config.settings[`worker.${key}`]?.source !== 'default');
  const isBusy = isEmbedded(config.database) && config.ledger.kind === 'database';
  if (!isBusy || isChosen) return config;
  const worker: Record<string, unknown> = { ...config.worker };
  const settings: Record<string, Given> = { ...config.settings };
  for (const [key, row, value] of EMBEDDED) {
    worker[resolvedName(key, row)] = durationMs(value, key);
    settings[`worker.${key}`] = { value, source: 'default' };
  }
  return { ...config, worker, settings };
}
