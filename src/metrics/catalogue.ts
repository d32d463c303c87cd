/** Every metric once: names, documents, exporters and tests come from this table. */

export interface MetricRow {
  readonly kind: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
  readonly sentence: string;
  /** Its name in DogStatsD, below the prefix. */
  readonly statsd: string;
  /** What a value is multiplied by there: times are milliseconds. */
  readonly statsdScale?: number;
  /** Upper bounds, of a histogram. */
  readonly buckets?: readonly number[];
}

/** From a fast commit to an outage of an hour. */
const SECONDS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600] as const;
const BYTES = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 16_777_216] as const;

const counter = (statsd: string, labels: readonly string[], sentence: string): MetricRow => ({
  kind: 'counter',
  labels,
  sentence,
  statsd,
});
const gauge = (statsd: string, labels: readonly string[], sentence: string): MetricRow => ({
  kind: 'gauge',
  labels,
  sentence,
  statsd,
});
const seconds = (statsd: string, labels: readonly string[], sentence: string): MetricRow => ({
  kind: 'histogram',
  labels,
  sentence,
  statsd,
  statsdScale: 1_000,
  buckets: SECONDS,
});

const TASK = ['task'] as const;

/** In the order of the documents. */
export const METRIC_NAMES = [
  'outlast_messages_enqueued_total',
  'outlast_messages_published_total',
  'outlast_messages_failed_total',
  'outlast_messages_exceeded_total',
  'outlast_send_latency_seconds',
  'outlast_batch_duration_seconds',
  'outlast_deferrals_total',
  'outlast_reclaims_total',
  'outlast_lost_claims_total',
  'outlast_circuit_trips_total',
  'outlast_breaker_state',
  'outlast_queue_depth',
  'outlast_dead_letters',
  'outlast_oldest_pending_age_seconds',
  'outlast_waiting_rows',
  'outlast_queue_rows',
  'outlast_tasks_total',
  'outlast_failures_total',
  'outlast_retries_total',
  'outlast_releases_total',
  'outlast_timeouts_total',
  'outlast_task_duration_seconds',
  'outlast_overhead_seconds',
  'outlast_lag_seconds',
  'outlast_resurrections_total',
  'outlast_resurrection_time_seconds',
  'outlast_dlq_quarantined_total',
  'outlast_idempotency_hits_total',
  'outlast_duplicates_total',
  'outlast_stale_commits_total',
  'outlast_refused_total',
  'outlast_admission_total',
  'outlast_slo_burn_rate',
  'outlast_totals',
  'outlast_checkpoint_bytes',
  'outlast_inflight_tasks',
  'outlast_prefetched_messages',
  'outlast_pool_waits',
  'outlast_event_loop_delay_seconds',
  'outlast_workers_lost_total',
  'outlast_lease_losses_total',
  'outlast_shutdowns_total',
  'outlast_shutdown_duration_seconds',
  'outlast_up',
] as const;

export type MetricName = (typeof METRIC_NAMES)[number];

export const METRICS: Readonly<Record<MetricName, MetricRow>> = Object.freeze({
  outlast_messages_enqueued_total: counter(
    'messages.enqueued',
    TASK,
    'Committed tasks that a relay took up for the first time. Without a broker only those with an ordering key or under a rate.',
  ),
  outlast_messages_published_total: counter(
    'messages.published',
    TASK,
    'Tasks that the broker, or the ledger, has taken from an outbox. Without a broker as above.',
  ),
  outlast_messages_failed_total: counter(
    'messages.failed',
    ['task', 'exception_type'],
    'Publishes that failed.',
  ),
  outlast_messages_exceeded_total: counter(
    'messages.exceeded',
    ['task', 'exception_type'],
    'Rows of an outbox that became dead letters.',
  ),
  outlast_send_latency_seconds: seconds(
    'send_latency_ms',
    TASK,
    'From the moment a row was due to its publish. None where one statement moves rows.',
  ),
  outlast_batch_duration_seconds: seconds('batch.duration_ms', [], 'One batch of a relay.'),
  outlast_deferrals_total: counter(
    'relay.deferrals',
    [],
    'Rows left for later without a retry: an outage, or a limit.',
  ),
  outlast_reclaims_total: counter(
    'relay.reclaims',
    [],
    'Rows that a claim had held before: failed or deferred ones, and those of dead relays.',
  ),
  outlast_lost_claims_total: counter(
    'relay.lost_claims',
    [],
    'Rows that were another relay’s when they should have been settled.',
  ),
  outlast_circuit_trips_total: counter('circuit_trips', [], 'How often the breaker has opened.'),
  outlast_breaker_state: gauge('breaker_state', [], '0: closed; 1: half-open; 2: open.'),
  outlast_queue_depth: gauge('queue.depth', [], 'Rows, and tasks beside them, that are due now.'),
  outlast_dead_letters: gauge(
    'dead_letter.count',
    ['where'],
    'Dead letters: of the outbox, and of workers.',
  ),
  outlast_oldest_pending_age_seconds: gauge(
    'oldest_pending_age_seconds',
    [],
    'Age of the oldest row since it was due for the first time.',
  ),
  outlast_waiting_rows: gauge(
    'waiting_rows',
    ['state'],
    'Rows that are not due: scheduled, backoff, deferred; unsupported: of a newer version.',
  ),
  outlast_queue_rows: gauge('queue_rows', ['queue'], 'Rows of the outbox by queue, in any state.'),
  outlast_tasks_total: counter(
    'tasks',
    ['task', 'status', 'reason'],
    'Tasks that ended here: completed, failed (dead, with the reason), discarded, cancelled, expired, idempotency_hit.',
  ),
  outlast_failures_total: counter(
    'failures',
    ['task', 'exception_type'],
    'Attempts of handlers that failed.',
  ),
  outlast_retries_total: counter('retries', TASK, 'Failed attempts that another one follows.'),
  outlast_releases_total: counter(
    'releases',
    ['what'],
    'Runs given back because something they need was away.',
  ),
  outlast_timeouts_total: counter(
    'timeouts',
    ['type'],
    'Timeouts of tasks; hard: it ended the attempt, soft: the attempt was told. Soft ones not of isolates.',
  ),
  outlast_task_duration_seconds: seconds('task_duration_ms', TASK, 'Run time of handlers.'),
  outlast_overhead_seconds: seconds(
    'overhead_ms',
    ['phase'],
    'Time in a worker beside the handler; `wait`: for a slot, limits and the idempotency key.',
  ),
  outlast_lag_seconds: seconds(
    'lag_ms',
    ['queue'],
    'From creation, or eta, to the begin of a run. None for ids of other programs.',
  ),
  outlast_resurrections_total: counter(
    'resurrections',
    TASK,
    'Tasks that came back after their worker died.',
  ),
  outlast_resurrection_time_seconds: seconds(
    'resurrection_time_ms',
    [],
    'From the moment a reaper had closed a lost worker to the return of each of its tasks.',
  ),
  outlast_dlq_quarantined_total: counter(
    'dlq_quarantined',
    ['reason'],
    'Tasks of workers that became dead letters.',
  ),
  outlast_idempotency_hits_total: counter(
    'idempotency_hits',
    TASK,
    'Tasks that ended with the result of another with the same key.',
  ),
  outlast_duplicates_total: counter(
    'duplicates',
    TASK,
    'Messages of tasks that the ledger had already.',
  ),
  outlast_stale_commits_total: counter(
    'stale_commits',
    TASK,
    'Runs that had lost their task and were refused.',
  ),
  outlast_refused_total: counter(
    'refused',
    TASK,
    'Tasks set aside by a worker without a handler for them.',
  ),
  outlast_admission_total: counter(
    'admission',
    ['result', 'resource', 'where'],
    'Tasks that limits let in (admitted) or turned away (rejected); the resource is the kind of the limit: tenant, task, queue, store.',
  ),
  outlast_slo_burn_rate: gauge(
    'slo.burn_rate',
    ['task', 'objective', 'window'],
    'How fast an objective uses up its budget: 1 exactly. None for a window in which nothing ended. As of the last 30 s.',
  ),
  outlast_totals: gauge(
    'totals',
    ['task', 'queue', 'figure'],
    'What happened to tasks since the beginning, as the ledger has counted it. As of the last 30 s.',
  ),
  outlast_checkpoint_bytes: {
    kind: 'histogram',
    labels: TASK,
    sentence: 'Sizes of checkpoints.',
    statsd: 'checkpoint_bytes',
    buckets: BYTES,
  },
  outlast_inflight_tasks: gauge('inflight_tasks', [], 'Runs that are running or being settled.'),
  outlast_prefetched_messages: gauge(
    'prefetched_messages',
    [],
    'Messages of the broker that workers hold and have not begun. None where workers take tasks from the ledger.',
  ),
  outlast_pool_waits: gauge(
    'pool_waits',
    [],
    'Statements that wait at this moment for one of our own connections to the database.',
  ),
  outlast_event_loop_delay_seconds: gauge(
    'event_loop_delay_seconds',
    ['of'],
    'How late timers of the process are: `p99` and `max` of the last 15 to 30 s.',
  ),
  outlast_workers_lost_total: counter('workers_lost', [], 'Workers that a reaper has closed.'),
  outlast_lease_losses_total: counter(
    'lease_losses',
    [],
    'Workers that learned that they had been closed.',
  ),
  outlast_shutdowns_total: counter(
    'shutdowns',
    ['type'],
    'Workers that ended as asked; handoff: they gave runs back.',
  ),
  outlast_shutdown_duration_seconds: seconds('shutdown_duration_ms', [], 'How long that took.'),
  outlast_up: gauge(
    'up',
    ['process'],
    'Processes whose figures are in this answer, by their kind.',
  ),
});

export const rowOfMetric = (name: MetricName): MetricRow => METRICS[name];
