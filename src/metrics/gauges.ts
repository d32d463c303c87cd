import { queueDepthOf } from '../outbox/outbox-reads.ts';
import type { RelayStatus } from '../relay/relay.ts';
import type { Registry } from './registry.ts';

type SetGauges = (registry: Registry) => void;

const BREAKER = { closed: 0, 'half-open': 1, open: 2 } as const;
const BACKLOG = [
  'outlast_queue_depth',
  'outlast_dead_letters',
  'outlast_oldest_pending_age_seconds',
  'outlast_waiting_rows',
  'outlast_queue_rows',
] as const;

/** The sampled figures of a relay. */
export function relayGauges(status: () => RelayStatus): SetGauges {
  const setBacklog = backlogGauges(status);
  return registry => {
    registry.set('outlast_breaker_state', [], BREAKER[status().breaker]);
    setBacklog(registry);
  };
}

/** A figure that is not known has no series. Null: there is no relay. */
export function backlogGauges(
  status: () => Pick<RelayStatus, 'sample' | 'workerLetters'> | null,
): SetGauges {
  return registry => {
    for (const name of BACKLOG) registry.clear(name);
    const { sample = null, workerLetters = null } = status() ?? {};
    if (workerLetters !== null) registry.set('outlast_dead_letters', ['worker'], workerLetters);
    if (sample === null) return;
    registry.set('outlast_queue_depth', [], queueDepthOf(sample));
    registry.set('outlast_dead_letters', ['outbox'], sample.deadLetters);
    const oldestMs = sample.oldestPendingMs ?? 0;
    registry.set('outlast_oldest_pending_age_seconds', [], oldestMs / 1_000);
    for (const state of ['scheduled', 'backoff', 'deferred', 'unsupported'] as const)
      registry.set('outlast_waiting_rows', [state], sample[state]);
    for (const { queue, rows } of sample.queues) registry.set('outlast_queue_rows', [queue], rows);
  };
}

/** What a worker holds at this moment. */
export function workerGauges(
  status: () => { readonly running: number; readonly prefetched: number } | null,
): SetGauges {
  return registry => {
    const { running, prefetched } = status() ?? { running: 0, prefetched: 0 };
    registry.set('outlast_inflight_tasks', [], running);
    registry.set('outlast_prefetched_messages', [], prefetched);
  };
}
