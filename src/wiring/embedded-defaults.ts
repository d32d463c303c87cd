import type { ResolvedConfig } from '../config/config.ts';

// One backend serves everybody in embedded mode and a transaction may hold it for seconds: a shorter lease would take
// a busy database for a dead worker. The death of a child is seen by its supervisor, so recovery is no slower.
const EMBEDDED_LEASE_MS = 30_000;
const EMBEDDED_BEAT_MS = 3_000;

/** Leases for an embedded database, unless the user has chosen. */
export function embeddedDefaults(config: ResolvedConfig): ResolvedConfig {
  const isChosen = [config.settings['worker.lease'], config.settings['worker.beat']].some(
    setting => setting?.source !== 'default',
  );
  const isBusy = config.database.kind === 'pglite' && config.ledger.kind === 'database';
  if (!isBusy || isChosen) return config;
  return {
    ...config,
    worker: { ...config.worker, leaseMs: EMBEDDED_LEASE_MS, beatMs: EMBEDDED_BEAT_MS },
    settings: {
      ...config.settings,
      'worker.lease': { value: `${EMBEDDED_LEASE_MS / 1_000}s`, source: 'default' },
      'worker.beat': { value: `${EMBEDDED_BEAT_MS / 1_000}s`, source: 'default' },
    },
  };
}
