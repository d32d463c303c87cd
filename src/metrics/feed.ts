import { codeOf, errorName } from '../errors/error-name.ts';
import type { Events, EventMap } from '../telemetry/events.ts';
import type { Registry } from './registry.ts';

type Source = Pick<Events, 'on'>;

/** How long a lost worker is remembered, for the time until its tasks are back. */
const MOST_LOST = 1_000;

/** Feeds a registry from the events of a process. The core knows nothing of it. */
export function feedRegistry(
  events: Source,
  registry: Registry,
  monotonic: () => number = () => performance.now(),
): () => void {
  const undo: (() => void)[] = [];
  const on: Source['on'] = (name, listener) => {
    const off = events.on(name, listener);
    undo.push(off);
    return off;
  };
  feedRelay(on, registry);
  feedTasks(on, registry);
  feedEndings(on, registry);
  feedRecovery(on, registry, monotonic);
  return () => undo.forEach(off => off());
}

function feedRelay(on: Source['on'], registry: Registry): void {
  on('task:created', ({ name }) => registry.add('outlast_messages_enqueued_total', [name]));
  on('task:sent', ({ name, latencyMs }) => {
    registry.add('outlast_messages_published_total', [name]);
    if (latencyMs !== null)
      registry.observe('outlast_send_latency_seconds', [name], latencyMs / 1_000);
  });
  on('relay:batch', ({ durationMs, deferred, again }) => {
    registry.observe('outlast_batch_duration_seconds', [], durationMs / 1_000);
    registry.add('outlast_deferrals_total', [], deferred);
    registry.add('outlast_reclaims_total', [], again);
  });
  on('relay:breaker-opened', () => registry.add('outlast_circuit_trips_total'));
  on('relay:claim-lost', ({ rows }) => registry.add('outlast_lost_claims_total', [], rows));
  const admission = (result: string, key: string, where: string): void =>
    registry.add('outlast_admission_total', [result, key.split(':', 1)[0] ?? '', where]);
  on('admission:rejected', ({ key, where }) => admission('rejected', key, where));
  on('admission:admitted', ({ keys, where }) => {
    for (const key of keys) admission('admitted', key, where);
  });
}

function feedTasks(on: Source['on'], registry: Registry): void {
  on('task:started', ({ queue, waitedMs, lagMs }) => {
    registry.observe('outlast_overhead_seconds', ['wait'], waitedMs / 1_000);
    if (lagMs !== null) registry.observe('outlast_lag_seconds', [queue], lagMs / 1_000);
  });
  on('task:failed', event => {
    const { name, where, error } = event;
    if (where === 'relay')
      return registry.add('outlast_messages_failed_total', [name, publishFault(String(error))]);
    registry.add('outlast_failures_total', [name, errorName(error)]);
    if (codeOf(error) === 'ERR_TIMEOUT') registry.add('outlast_timeouts_total', ['hard']);
  });
  on('task:soft-timeout', () => registry.add('outlast_timeouts_total', ['soft']));
  on('task:retried', ({ name }) => registry.add('outlast_retries_total', [name]));
  on('task:released', ({ what }) => registry.add('outlast_releases_total', [what]));
  on('task:checkpointed', ({ name, bytes }) =>
    registry.observe('outlast_checkpoint_bytes', [name], bytes),
  );
  on('task:duplicate', ({ name }) => registry.add('outlast_duplicates_total', [name]));
  on('task:stale', ({ name }) => registry.add('outlast_stale_commits_total', [name]));
  on('task:refused', ({ name }) => registry.add('outlast_refused_total', [name]));
}

function feedEndings(on: Source['on'], registry: Registry): void {
  const end = (name: string, status: string, reason = ''): void =>
    registry.add('outlast_tasks_total', [name, status, reason]);
  on('task:done', ({ name, durationMs }) => {
    end(name, 'completed');
    registry.observe('outlast_task_duration_seconds', [name], durationMs / 1_000);
  });
  on('task:deduplicated', ({ name }) => {
    end(name, 'idempotency_hit');
    registry.add('outlast_idempotency_hits_total', [name]);
  });
  on('task:discarded', ({ name }) => end(name, 'discarded'));
  on('task:cancelled', ({ name }) => end(name, 'cancelled'));
  on('task:expired', ({ name }) => end(name, 'expired'));
  on('task:dead-lettered', ({ name, where, reason, error }) => {
    if (where === 'relay')
      return registry.add('outlast_messages_exceeded_total', [
        name,
        error === null ? 'unknown' : publishFault(error.message),
      ]);
    end(name, 'failed', reason);
    registry.add('outlast_dlq_quarantined_total', [reason]);
  });
}

function feedRecovery(on: Source['on'], registry: Registry, monotonic: () => number): void {
  let lostAt: number | null = null;
  let left = 0;
  on('worker:lost', () => {
    registry.add('outlast_workers_lost_total');
    [lostAt, left] = [monotonic(), MOST_LOST];
  });
  on('task:resurrected', ({ name }) => {
    registry.add('outlast_resurrections_total', [name]);
    if (lostAt === null || left-- <= 0) return;
    registry.observe('outlast_resurrection_time_seconds', [], (monotonic() - lostAt) / 1_000);
  });
  on('worker:lease-lost', () => registry.add('outlast_lease_losses_total'));
  on('worker:drained', ({ released, durationMs }: EventMap['worker:drained']) => {
    registry.add('outlast_shutdowns_total', [released > 0 ? 'handoff' : 'clean']);
    registry.observe('outlast_shutdown_duration_seconds', [], durationMs / 1_000);
  });
}

/** The kinds that the reference has. A text of a broker is never a label: it may quote anything. */
function publishFault(text: string): string {
  if (/time[sd]? ?out|in time|within \d+/i.test(text)) return 'timeout';
  if (/connect|socket|closed|ECONN|EPIPE/i.test(text)) return 'connection';
  return /\bE[A-Z]{3,}\b/.test(text) ? 'os_error' : 'unknown';
}
