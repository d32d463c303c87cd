import { queueDepthOf } from '../outbox/outbox-reads.ts';
import type { RelayStatus } from '../relay/relay.ts';
import type { Registry } from './registry.ts';

const BREAKER = { closed: 0, 'half-open': 1, open: 2 } as const;

/** The sampled figures of a relay. A figure that is not known has no series. */
export function relayGauges(status: () => RelayStatus): (registry: Registry) => void {
  return registry => {
    const { breaker, sample, workerLetters } = status();
    registry.set('outlast_breaker_state', [], BREAKER[breaker]);
    if (workerLetters === null) registry.clear('outlast_dead_letters');
    else registry.set('outlast_dead_letters', ['worker'], workerLetters);
    if (sample === null) return;
    registry.set('outlast_queue_depth', [], queueDepthOf(sample));
    registry.set('outlast_dead_letters', ['outbox'], sample.deadLetters);
    const oldestMs = sample.oldestPendingMs ?? 0;
    registry.set('outlast_oldest_pending_age_seconds', [], oldestMs / 1_000);
    for (const state of ['scheduled', 'backoff', 'deferred', 'unsupported'] as const)
      registry.set('outlast_waiting_rows', [state], sample[state]);
    registry.clear('outlast_queue_rows');
    for (const { queue, rows } of sample.queues) registry.set('outlast_queue_rows', [queue], rows);
  };
}

export function workerGauges(running: () => number): (registry: Registry) => void {
  return registry => registry.set('outlast_inflight_tasks', [], running());
}
