import type { Duration } from '../task/duration.ts';
import {
  OptionReader,
  type Defaults,
  type NameOf,
  type Resolution,
  type Section,
} from './options.ts';
import { resolveQueues, type Queues } from './queues.ts';

/** What a user may say about workers. Durations are text with a unit. */
export interface WorkerOptions {
  /** Queues to take tasks from: names, or names with weights. @default ['default'] */
  readonly queues?: Queues | undefined;
  /** Tasks run at once in each process. @default 50 */
  readonly concurrency?: number | undefined;
  /** Processes under one supervisor. @default 1 */
  readonly processes?: number | undefined;
  /**
   * Time without a heartbeat after which a process counts as dead and its tasks go to others.
   * @default '5s'
   */
  readonly lease?: Duration | undefined;
  /** Time between two heartbeats of a process. @default '1s' */
  readonly beat?: Duration | undefined;
  /** Longest time the event loop may stand still before the process is killed. @default '120s' */
  readonly maxBlock?: Duration | undefined;
  /** Longest sleep when no task is ready; a notification wakes the worker sooner. @default '1s' */
  readonly idleTime?: Duration | undefined;
  /**
   * Time running tasks have to end after a stop; the rest is released for others.
   * @default '30s'
   */
  readonly shutdownTimeout?: Duration | undefined;
  /**
   * Time a finished task is remembered, so that a late copy of it does not run again.
   * @default '15m'
   */
  readonly dedupWindow?: Duration | undefined;
  /** Time a result is kept for whoever waits for it. @default '1d' */
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
  /** Largest checkpoint, in bytes; one over 262144 is kept beside the ledger. @default 67108864 */
  readonly maxCheckpointBytes?: number | undefined;
  /**
   * A folder that all workers and resurrectors share, for checkpoints over 262144 bytes. None: the database of the outbox.
   * @default none
   */
  readonly checkpointFolder?: string | undefined;
  /**
   * Answer Celery's remote control (`celery inspect`, `celery control`, Flower) on RabbitMQ and Redis.
   * @default 'on'
   */
  readonly celeryControl?: 'on' | 'off' | undefined;
  /**
   * Send Celery's events (`celery events`, Flower) on RabbitMQ and Redis; off: until remote control asks for them.
   * @default 'off'
   */
  readonly celeryEvents?: 'on' | 'off' | undefined;
  /**
   * Tell those who wait for a result when its task begins, as Celery's `task_track_started` does (`STARTED`).
   * @default 'off'
   */
  readonly trackStarted?: 'on' | 'off' | undefined;
}

export const WORKER_DEFAULTS: Defaults<WorkerOptions> = Object.freeze({
  queues: Object.freeze(['default']),
  concurrency: 50,
  processes: 1,
  lease: '5s',
  beat: '1s',
  maxBlock: '120s',
  idleTime: '1s',
  shutdownTimeout: '30s',
  dedupWindow: '15m',
  resultTtl: '1d',
  maxIsolated: 4,
  maxTasks: 0,
  maxMemoryMb: 0,
  livenessFile: '',
  healthPort: 0,
  maxCheckpointBytes: 67_108_864,
  checkpointFolder: '',
  celeryControl: 'on',
  celeryEvents: 'off',
  trackStarted: 'off',
});

/** What a worker runs on: checked, complete, in milliseconds. */
export interface ResolvedWorkerOptions {
  /** Every queue with its weight. */
  readonly queues: Readonly<Record<string, number>>;
  readonly concurrency: number;
  readonly processes: number;
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly maxBlockMs: number;
  readonly idleTimeMs: number;
  readonly shutdownTimeoutMs: number;
  readonly dedupWindowMs: number;
  readonly resultTtlMs: number;
  readonly maxIsolated: number;
  readonly maxTasks: number;
  readonly maxMemoryMb: number;
  readonly livenessFile: string | null;
  readonly healthPort: number | null;
  readonly maxCheckpointBytes: number;
  readonly checkpointFolder: string | null;
  readonly celeryControl: 'on' | 'off';
  readonly celeryEvents: 'on' | 'off';
  readonly trackStarted: 'on' | 'off';
}

export const WORKER_SECTION: Section<WorkerOptions> = {
  name: 'worker',
  defaults: WORKER_DEFAULTS,
  rules: {
    queues: {
      kind: 'queues',
      sentence: 'Queues to take tasks from: names, or names with weights.',
    },
    concurrency: {
      kind: 'integer',
      min: 1,
      max: 10_000,
      sentence: 'Tasks run at once in each process.',
    },
    processes: { kind: 'integer', min: 1, max: 256, sentence: 'Processes under one supervisor.' },
    lease: {
      kind: 'duration',
      min: '100ms',
      max: '1h',
      sentence:
        'Time without a heartbeat after which a process counts as dead and its tasks go to others.',
    },
    beat: {
      kind: 'duration',
      min: '10ms',
      max: '10m',
      sentence: 'Time between two heartbeats of a process.',
    },
    maxBlock: {
      kind: 'duration',
      min: '100ms',
      max: '1d',
      sentence: 'Longest time the event loop may stand still before the process is killed.',
    },
    idleTime: {
      kind: 'duration',
      min: '1ms',
      max: '1h',
      sentence: 'Longest sleep when no task is ready; a notification wakes the worker sooner.',
    },
    shutdownTimeout: {
      kind: 'duration',
      min: '0s',
      max: '1d',
      sentence: 'Time running tasks have to end after a stop; the rest is released for others.',
    },
    dedupWindow: {
      kind: 'duration',
      min: '1ms',
      max: '365d',
      sentence: 'Time a finished task is remembered, so that a late copy of it does not run again.',
    },
    resultTtl: {
      kind: 'duration',
      min: '1ms',
      max: '365d',
      sentence: 'Time a result is kept for whoever waits for it.',
    },
    maxIsolated: {
      kind: 'integer',
      min: 1,
      max: 256,
      sentence: 'Handlers of mode `thread` or `process` run at once in each process.',
    },
    maxTasks: {
      kind: 'integer',
      min: 0,
      max: 1_000_000_000,
      sentence: 'Tasks after which a process lets the ones it has end and is replaced; 0: never.',
    },
    maxMemoryMb: {
      kind: 'integer',
      min: 0,
      max: 1_048_576,
      sentence:
        'Memory in MiB beyond which a process lets the tasks it has end and is replaced; 0: no limit.',
    },
    livenessFile: {
      kind: 'path',
      sentence: 'A file that is touched while the worker is healthy.',
    },
    healthPort: {
      kind: 'integer',
      min: 0,
      max: 65_535,
      sentence: 'Port of an HTTP server that answers probes; 0: none.',
    },
    maxCheckpointBytes: {
      kind: 'integer',
      min: 1,
      max: 1_073_741_824,
      sentence: 'Largest checkpoint, in bytes; one over 262144 is kept beside the ledger.',
    },
    checkpointFolder: {
      kind: 'path',
      sentence:
        'A folder that all workers and resurrectors share, for checkpoints over 262144 bytes. None: the database of the outbox.',
    },
    celeryControl: {
      kind: 'choice',
      choices: ['on', 'off'],
      sentence:
        "Answer Celery's remote control (`celery inspect`, `celery control`, Flower) on RabbitMQ and Redis.",
    },
    celeryEvents: {
      kind: 'choice',
      choices: ['on', 'off'],
      sentence:
        "Send Celery's events (`celery events`, Flower) on RabbitMQ and Redis; off: until remote control asks for them.",
    },
    trackStarted: {
      kind: 'choice',
      choices: ['on', 'off'],
      sentence:
        "Tell those who wait for a result when its task begins, as Celery's `task_track_started` does (`STARTED`).",
    },
  },
};

/** Checks what was given, fills in the rest and holds the options against each other. */
export function resolveWorkerOptions(
  given: WorkerOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedWorkerOptions> {
  const reader = new OptionReader(WORKER_SECTION, given, nameOf);
  const options: ResolvedWorkerOptions = Object.freeze({
    queues: resolveQueues(reader.raw('queues'), reader.nameOf('queues')),
    concurrency: reader.number('concurrency'),
    processes: reader.number('processes'),
    leaseMs: reader.durationMs('lease'),
    beatMs: reader.durationMs('beat'),
    maxBlockMs: reader.durationMs('maxBlock'),
    idleTimeMs: reader.durationMs('idleTime'),
    shutdownTimeoutMs: reader.durationMs('shutdownTimeout'),
    dedupWindowMs: reader.durationMs('dedupWindow'),
    resultTtlMs: reader.durationMs('resultTtl'),
    maxIsolated: reader.number('maxIsolated'),
    maxTasks: reader.number('maxTasks'),
    maxMemoryMb: reader.number('maxMemoryMb'),
    livenessFile: reader.path('livenessFile'),
    healthPort: reader.number('healthPort') || null,
    maxCheckpointBytes: reader.number('maxCheckpointBytes'),
    checkpointFolder: reader.path('checkpointFolder'),
    celeryControl: reader.choice('celeryControl'),
    celeryEvents: reader.choice('celeryEvents'),
    trackStarted: reader.choice('trackStarted'),
  });
  checkRelations(options, reader);
  return { options, warnings: reader.warnings };
}

/** Under this a garbage collection or a slow commit is taken for a death. */
const SHORT_LEASE_MS = 3_000;

function checkRelations(options: ResolvedWorkerOptions, reader: OptionReader<WorkerOptions>): void {
  const { nameOf } = reader;
  // Two beats may be lost on the way before anybody may think the process dead.
  if (options.leaseMs < 3 * options.beatMs) {
    reader.conflict(
      ['lease', 'beat'],
      `a lease of ${options.leaseMs} ms has no room for three beats of ${options.beatMs} ms`,
      `Raise \`${nameOf('lease')}\` to '${3 * options.beatMs}ms', or lower \`${nameOf('beat')}\`.`,
    );
  }
  if (options.leaseMs < SHORT_LEASE_MS) {
    reader.warn(
      `\`${nameOf('lease')}\` is under 3 s: a short pause of a living process gives its tasks to others`,
    );
  }
}
