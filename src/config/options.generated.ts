// Written by scripts/write-options.mjs from the tables in src/options; edit those and run npm run build.
import type { ContextOption } from '../task/context-headers.ts';
import type { TaskCall } from '../task/define-task.ts';
import type { Duration } from '../task/duration.ts';
import type { Redactor } from '../task/redact.ts';
import type { EventListeners } from '../telemetry/events.ts';
import type { Logger, LogSettings } from '../telemetry/logger.ts';
import type { AdmissionOptions } from './admission.ts';
import type { CeleryRoutes } from './celery.ts';
import type { MetricsOptions } from './metrics.ts';
import type { Queues } from './queues.ts';
import type { RetentionOptions } from './retention.ts';
import type { TracesOptions } from './traces.ts';

/** What a user may say about the relay. Durations are text with a unit. */
export interface RelayOptions {
  /** Rows claimed at once. @default 100 */
  readonly batchSize?: number | undefined;
  /** Longest sleep when nothing is due; a notification wakes the relay sooner. @default '1s' */
  readonly idleTime?: Duration | undefined;
  /** Wait after the first failed publish; it doubles with every further one. @default '120s' */
  readonly backoffTime?: Duration | undefined;
  /** Longest wait between two publish attempts. @default '3600s' */
  readonly maxBackoff?: Duration | undefined;
  /** Publish attempts before a row becomes a dead letter. @default 5 */
  readonly maxRetries?: number | undefined;
  /** Seconds a claim lasts under a living relay; a dead relay's rows are free within seconds. @default 300 */
  readonly staleTimeoutSeconds?: number | undefined;
  /** Time one publish attempt may take. @default '10s' */
  readonly sendTimeout?: Duration | undefined;
  /** Time after a stop in which new publishes may still start; what is left is released at once. @default '30s' */
  readonly shutdownTimeout?: Duration | undefined;
  /**
   * How long rows wait after an outage of the broker, and a broker is left alone after two; costs no retry.
   * @default '30s'
   */
  readonly brokerOutageCooldown?: Duration | undefined;
  /** Messages on their way to the broker and not confirmed; 1 is strictly serial. @default 1 */
  readonly publishConcurrency?: number | undefined;
  /** Seconds between two looks at the figures of the outbox. @default 5 */
  readonly queueSnapshotRefreshSeconds?: number | undefined;
  /**
   * How long a task that asks for end-to-end durability may be unknown to the ledger before it is published again.
   * @default '15m'
   */
  readonly receiptTimeout?: Duration | undefined;
  /**
   * Whether messages say when a relay claimed and published them, for `outlast tasks inspect`. Costs some of the rate
   * of workers.
   * @default false
   */
  readonly lifeLine?: boolean | undefined;
  /** A file that is touched while the relay is healthy. @default none */
  readonly livenessFile?: string | undefined;
  /** Port of an HTTP server that answers probes; 0: none. @default 0 */
  readonly healthPort?: number | undefined;
  /**
   * Address that server listens on; 0.0.0.0 where probes come from elsewhere, as on Kubernetes.
   * @default '127.0.0.1'
   */
  readonly healthHost?: string | undefined;
  /**
   * Spread of the waits: `tenth` adds up to a tenth of the base, `full` draws from the whole wait.
   * @default 'tenth'
   */
  readonly jitter?: 'tenth' | 'full' | undefined;
}

/** What the relay runs on: checked, complete, in milliseconds. */
export interface ResolvedRelayOptions {
  readonly batchSize: number;
  readonly idleTimeMs: number;
  readonly backoffTimeMs: number;
  readonly maxBackoffMs: number;
  readonly maxRetries: number;
  readonly staleTimeoutMs: number;
  readonly sendTimeoutMs: number;
  readonly shutdownTimeoutMs: number;
  readonly brokerOutageCooldownMs: number;
  readonly publishConcurrency: number;
  readonly queueSnapshotRefreshMs: number;
  readonly receiptTimeoutMs: number;
  readonly lifeLine: boolean;
  readonly livenessFile: string | null;
  readonly healthPort: number | null;
  readonly healthHost: string;
  readonly jitter: 'tenth' | 'full';
}

/** What a user may say about a worker. Durations are text with a unit. */
export interface WorkerOptions {
  /** Queues to take tasks from: names, or names with weights. @default ['default'] */
  readonly queues?: Queues | undefined;
  /** Tasks run at once in each process. @default 50 */
  readonly concurrency?: number | undefined;
  /** Processes under one supervisor. @default 1 */
  readonly processes?: number | undefined;
  /**
   * Time without a heartbeat after which a process counts as dead and its tasks go to others.
   * @default '5s'; '30s' on an embedded database
   */
  readonly lease?: Duration | undefined;
  /** Time between two heartbeats of a process. @default '1s'; '3s' on an embedded database */
  readonly beat?: Duration | undefined;
  /** Longest time the event loop may stand still before the process is killed. @default '120s' */
  readonly maxBlock?: Duration | undefined;
  /** An attempt of a task whose contract names no `timeout` is aborted after this; 0: never. @default '0s' */
  readonly timeout?: Duration | undefined;
  /** Longest sleep when no task is ready; a notification wakes the worker sooner. @default '1s' */
  readonly idleTime?: Duration | undefined;
  /** Time running tasks have to end after a stop; the rest is released for others. @default '30s' */
  readonly shutdownTimeout?: Duration | undefined;
  /** Time a finished task is remembered, so that a late copy of it does not run again. @default '15m' */
  readonly dedupWindow?: Duration | undefined;
  /** How long a result is kept for its readers. @default '1d' */
  readonly resultTtl?: Duration | undefined;
  /** Handlers of mode `thread` or `process` run at once in each process. @default 4 */
  readonly maxIsolated?: number | undefined;
  /** Tasks after which a process lets the ones it has end and is replaced; 0: never. @default 0 */
  readonly maxTasks?: number | undefined;
  /** Memory in MiB beyond which a process lets the tasks it has end and is replaced; 0: no limit. @default 0 */
  readonly maxMemoryMb?: number | undefined;
  /** A file that is touched while the worker is healthy. @default none */
  readonly livenessFile?: string | undefined;
  /** Port of an HTTP server that answers probes; 0: none. @default 0 */
  readonly healthPort?: number | undefined;
  /**
   * Address that server listens on; 0.0.0.0 where probes come from elsewhere, as on Kubernetes.
   * @default '127.0.0.1'
   */
  readonly healthHost?: string | undefined;
  /** Largest checkpoint, in bytes; one over 262144 is kept beside the ledger. @default 67108864 */
  readonly maxCheckpointBytes?: number | undefined;
  /**
   * A folder that all workers and resurrectors share, for checkpoints over 262144 bytes. None: the database of the
   * outbox.
   * @default none
   */
  readonly checkpointFolder?: string | undefined;
  /**
   * Answer Celery's remote control (`celery inspect`, `celery control`, Flower) on RabbitMQ and Redis. `inspect`: only
   * answer questions; `on`: also revoke, shut down and take from queues that this worker knows; `full`: take from any
   * queue.
   * @default 'on'; 'inspect' with signing keys
   */
  readonly celeryControl?: 'on' | 'off' | 'inspect' | 'full' | undefined;
  /**
   * Hand the signing keys of the environment to handlers of mode `thread` or `process`, which need them to send tasks.
   * @default 'off'
   */
  readonly isolateKeys?: 'on' | 'off' | undefined;
  /**
   * Send Celery's events (`celery events`, Flower) on RabbitMQ and Redis; off: until remote control asks for them.
   * @default 'off'
   */
  readonly celeryEvents?: 'on' | 'off' | undefined;
  /**
   * Report `STARTED` to callers that wait for a result when its task begins, as Celery's `task_track_started` does.
   * @default 'off'
   */
  readonly trackStarted?: 'on' | 'off' | undefined;
}

/** What a worker runs on: checked, complete, in milliseconds. */
export interface ResolvedWorkerOptions {
  readonly queues: Readonly<Record<string, number>>;
  readonly concurrency: number;
  readonly processes: number;
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly maxBlockMs: number;
  readonly timeoutMs: number;
  readonly idleTimeMs: number;
  readonly shutdownTimeoutMs: number;
  readonly dedupWindowMs: number;
  readonly resultTtlMs: number;
  readonly maxIsolated: number;
  readonly maxTasks: number;
  readonly maxMemoryMb: number;
  readonly livenessFile: string | null;
  readonly healthPort: number | null;
  readonly healthHost: string;
  readonly maxCheckpointBytes: number;
  readonly checkpointFolder: string | null;
  readonly celeryControl: 'on' | 'off' | 'inspect' | 'full';
  readonly isolateKeys: 'on' | 'off';
  readonly celeryEvents: 'on' | 'off';
  readonly trackStarted: 'on' | 'off';
}

/** What a user may say about the resurrector. Durations are text with a unit. */
export interface ResurrectorOptions {
  /** Time between two looks for dead processes. @default '500ms' */
  readonly interval?: Duration | undefined;
  /** Tasks of a dead process brought back by one statement. @default 500 */
  readonly batchSize?: number | undefined;
  /** Age at which unfinished follow-up work of an ended task is done again. @default '5s' */
  readonly afterDelay?: Duration | undefined;
  /** How long a task waits for a worker that has a handler for it, before it is a dead letter. @default '15m' */
  readonly unknownTaskTimeout?: Duration | undefined;
}

/** What the resurrector runs on: checked, complete, in milliseconds. */
export interface ResolvedResurrectorOptions {
  readonly intervalMs: number;
  readonly batchSize: number;
  readonly afterDelayMs: number;
  readonly unknownTaskTimeoutMs: number;
}

/** What a user writes about the broker, where a URL alone does not say enough. */
export interface BrokerOptions {
  /**
   * `amqp://user:password@host:5672/vhost` or `amqps://…`; several hosts as `host1,host2` or as whole URLs with `;`
   * between. `redis://`, `rediss://`, `sentinel://`, `redis+cluster://`.
   * @default none
   */
  readonly url: string;
  /**
   * `classic` or `quorum`: RabbitMQ queues that are not there yet. Those that are stay as they are.
   * @default 'classic'
   */
  readonly queueType?: 'classic' | 'quorum' | undefined;
  /**
   * The exchange that is declared with such a queue, under its name: Celery's `task_default_exchange_type`, or
   * `task_create_missing_queue_exchange_type`. `auto`: `direct`, and none with quorum queues, because Celery may want
   * either there, and declares it itself.
   * @default 'auto'
   */
  readonly exchangeType?: 'auto' | 'direct' | 'topic' | undefined;
  /**
   * Celery's native delayed delivery (5.5 and later): the type of the queues in which messages wait for their `eta`, as
   * `broker_native_delayed_delivery_queue_type`. Workers declare them if they are missing. `auto`: `quorum` with quorum
   * queues, else `off`.
   * @default 'auto'
   */
  readonly delayedDelivery?: 'auto' | 'quorum' | 'classic' | 'off' | undefined;
  /**
   * 1 to 255: priorities of classic RabbitMQ queues declared here, as Celery's `task_queue_max_priority`.
   * @default none
   */
  readonly maxPriority?: number | undefined;
  /**
   * When a message is acknowledged. `commit`: when its run is settled, after 10 minutes at the latest; `begin`: as soon
   * as the ledger has the task. Use `begin` where Python workers share the queue and must not see a task again that was
   * begun here.
   * @default 'commit'; where `ledger` is the same Redis `begin`
   */
  readonly ackOn?: 'commit' | 'begin' | undefined;
  /**
   * The queue on which Python's workers report how the parts of our chords ended, unless the ledger is in their Redis.
   * Use another one for each installation that shares a broker.
   * @default 'outlast.chords'
   */
  readonly chordQueue?: string | undefined;
  /**
   * Where links, chords and `reply_to` of messages may have us write beside what is allowed anyway: names of queues
   * with `*` for any text, of exchanges with `exchange:` in front.
   * @default []
   */
  readonly destinations?: readonly string[] | undefined;
  /**
   * Answers to senders that wait for one, as Celery's `rpc://` results; RabbitMQ. Every Celery producer names a queue
   * for them: `off` saves a message for each task where results are kept elsewhere.
   * @default 'on'
   */
  readonly replies?: 'on' | 'off' | undefined;
}

/** What a user writes about the Celery applications at the same broker. */
export interface CeleryOptions {
  /**
   * Where tasks go that a link, chain or chord of a message names without a queue, and that have no handler here:
   * Celery's `task_routes`, as an object, as pairs, as a function of the name, or as a list of these.
   * @default none
   */
  readonly routes?: CeleryRoutes | undefined;
  /** Where they go without a route: Celery's `task_default_queue`. @default 'celery' */
  readonly defaultQueue?: string | undefined;
  /**
   * `redis://…`: the Redis that is Celery's `result_backend`, where the ledger is in PostgreSQL beside a broker. Chords
   * of Python's workflows are counted there, because Python's workers look there for how many parts they have, and
   * Python's callers find our results there.
   * @default none
   */
  readonly chordBackend?: string | undefined;
}

/** What a user says about a schedule: either `cron` or `every`. */
export interface ScheduleOptions {
  /**
   * What is sent for each slot: `nightly.with(input, options)`. `countdown`, `expires` and `deadline` are lengths from
   * the send.
   */
  readonly call: TaskCall;
  /**
   * Five fields (minute, hour, day of month, month, day of week), or six with seconds first. Either this or `every`.
   */
  readonly cron?: string | undefined;
  /** The IANA time zone of `cron`. @default `UTC` */
  readonly timeZone?: string | undefined;
  /** The length between two slots, counted from `start`, else from 1970. */
  readonly every?: Duration | undefined;
  /** No slot is before this instant. */
  readonly start?: Date | string | undefined;
  /** No slot is after this instant. */
  readonly end?: Date | string | undefined;
  /**
   * Spreads tasks: each begins up to this much after its slot, by an amount that follows from name and slot.
   * @default '0ms'
   */
  readonly jitter?: Duration | undefined;
  /** A slot that is seen later than this is late, and `catchUp` decides about it. @default '1m' */
  readonly grace?: Duration | undefined;
  /**
   * What becomes of late slots: none is sent; the newest if no other slot is due; or all, the newest `maxCatchUp` of
   * them.
   * @default 'one'
   */
  readonly catchUp?: 'skip' | 'one' | 'all' | undefined;
  /** Most late slots that `all` sends; older ones are skipped. @default 100 */
  readonly maxCatchUp?: number | undefined;
  /**
   * What becomes of a slot while the task of the one before is not over: it is sent; skipped; or sent when that is
   * over.
   * @default 'allow'
   */
  readonly overlap?: 'allow' | 'skip' | 'wait' | undefined;
}

/** What a user writes in `outlast.config.ts` or gives to `createOutlast`. */
export interface OutlastConfig {
  /**
   * Where tasks live: `pglite:./folder`, `pglite:memory://`, `postgres://…` or `postgresql://…`; with `broker` and
   * `ledger` elsewhere also `mysql://…` or `mariadb://…`.
   * @default 'pglite:./.outlast'
   */
  readonly database?: string | undefined;
  /**
   * The PostgreSQL schema of Outlast's tables, `outlast` for example, so that tools that compare your own schema with
   * the database leave them alone. None: where `search_path` finds them.
   * @default none
   */
  readonly schema?: string | undefined;
  /**
   * Where the relay publishes and workers consume: `amqp://…`, `amqps://…`, `redis://…`, `rediss://…`, or options with
   * a `url`. None: the database.
   * @default none
   */
  readonly broker?: string | BrokerOptions | undefined;
  /**
   * Where it is kept who runs what, and results: `redis://…`. None: the broker if it is Redis, else the database.
   * @default none
   */
  readonly ledger?: string | undefined;
  /**
   * What Celery applications at the same broker know and we do not: `{ routes: { 'reports.*': 'reports' },
   * defaultQueue: 'celery' }`.
   * @default {}
   */
  readonly celery?: CeleryOptions | undefined;
  /**
   * Outboxes in other databases, PostgreSQL, MySQL or MariaDB, by name: `{ crm: { database: … } }`, with a `schema` of
   * its own if it has one; `relay --outbox crm` publishes them into `database`.
   * @default {}
   */
  readonly outboxes?: Readonly<Record<string, { readonly database: string; readonly schema?: string | undefined }>> | undefined;
  /**
   * Modules whose exported handlers a worker runs: paths relative to the config file, with `*` and `**`.
   * @default []
   */
  readonly tasks?: readonly string[] | undefined;
  /** Refuse a `send` outside a transaction; false: warn. A pool is refused always. @default true */
  readonly strict?: boolean | undefined;
  /** Task names, with `*`, whose `send` goes straight to the broker and so escapes a rollback. @default [] */
  readonly excludeTasks?: readonly string[] | undefined;
  /** Largest body of a task, in bytes. @default 1048576 */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * Largest message that a worker takes from the broker, as it comes and inflated, in bytes. Of a larger one a dead
   * letter keeps size, digest and the first 4096 bytes. Never below `maxPayloadBytes`.
   * @default 16777216
   */
  readonly maxMessageBytes?: number | undefined;
  /**
   * Makes the copy of arguments that people see: `({ name, args, kwargs }) => ({ args, kwargs })`. It gets a copy of
   * its own and must return at once; if it throws, nothing is shown. What is sent and run stays as it is.
   * @default none
   */
  readonly redact?: Redactor | undefined;
  /**
   * What a task takes along from the place where it is sent: names of what `withContext` has bound there
   * (`['requestId', 'user']`), or a function that returns texts by name. It travels in the task's headers; up to 16
   * texts, cut at 256 characters.
   * @default none
   */
  readonly context?: ContextOption | undefined;
  /**
   * Secrets as `id:hex` or `id:base64`, with commas between them in the variable: the first one signs what is sent, all
   * of them verify. With one, workers run signed tasks only. Every process that sends, works or recovers needs them.
   * @default []
   */
  readonly signingKeys?: readonly string[] | undefined;
  /**
   * Queues whose tasks need no signature, because others send to them, with the tasks that may come there, by name or
   * by a prefix before `*`: `{ 'from-python': ['report.*'] }`. Follow-ups of unsigned tasks are not signed.
   * @default {}
   */
  readonly unsignedQueues?: Readonly<Record<string, readonly string[]>> | undefined;
  /**
   * How long after its signing a task is accepted from a broker, up to 23 hours; ended tasks are remembered for longer
   * than that, so that a copy does not run again. Relays and workers sign tasks again that have waited long.
   * @default '12h'
   */
  readonly signatureMaxAge?: Duration | undefined;
  /** What signatures are for, for example `production`: those of another audience do not count here. @default '' */
  readonly signingAudience?: string | undefined;
  /**
   * What a resurrector deletes by itself: `{ deadLetters: { olderThanDead: '30d', olderThanCreated: '90d', taskName:
   * 'shop.*' } }`; all that is given must hold, and one age must be.
   * @default {}
   */
  readonly retention?: RetentionOptions | undefined;
  /**
   * How much may come in, and how many may run at once: `{ 'tenant:*': { rate: { limit: 50, per: '1s', burst: 5 } },
   * 'queue:billing': { concurrency: 200 } }`. Patterns are `tenant:`, `task:` or `queue:` and a name, with `*` and `?`:
   * each name that matches is limited for itself, and of each kind the most specific pattern counts. `'*'` is one limit
   * for all tasks together.
   * @default {}
   */
  readonly admission?: AdmissionOptions | undefined;
  /**
   * Where figures go: `{ dogstatsd: '127.0.0.1:8125', opentelemetry: true, readableFrom: 'anywhere', tasks:
   * ['shop.pay'] }`. Prometheus reads them from `/metrics` on the health port: clients on this machine, or
   * `readableFrom: 'anywhere'`. `tasks` names those that have series of their own; without it the first 200 have.
   * @default {}
   */
  readonly metrics?: MetricsOptions | undefined;
  /**
   * Traces: `{ opentelemetry: true }` makes spans for the tracer of `@opentelemetry/api`, and sends W3C headers along.
   * `{ sentry: Sentry }` does the same with Sentry.
   * @default {}
   */
  readonly traces?: TracesOptions | undefined;
  /**
   * Tasks that are sent by the clock, by name: `{ nightly: { call: nightly.with(), cron: '0 3 * * *', timeZone:
   * 'Europe/Berlin' } }`.
   * @default {}
   */
  readonly schedule?: Readonly<Record<string, ScheduleOptions>> | undefined;
  /** Listeners for events, called in the process where the event happens. @default none */
  readonly on?: EventListeners | undefined;
  /**
   * Replaces Outlast's own log, which writes to stderr; a pino logger fits. Or `{ level: 'debug' }` for the own one:
   * `debug`, `info`, `warn`, `error` or `silent`, as the variable says. Commands log from `info` on, `createOutlast`
   * from `warn` on.
   * @default Outlast's own
   */
  readonly log?: Logger | LogSettings | undefined;
  readonly relay?: RelayOptions | undefined;
  readonly worker?: WorkerOptions | undefined;
  readonly resurrector?: ResurrectorOptions | undefined;
}
