import type { OptionTable } from './option.ts';

/** What a user may say about workers. */
export const WORKER_TABLE: OptionTable = Object.freeze({
  queues: {
    kind: 'queues',
    default: ['default'],
    sentence: 'Queues to take tasks from: names, or names with weights.',
  },
  concurrency: {
    kind: 'integer',
    default: 50,
    min: 1,
    max: 10_000,
    sentence: 'Tasks run at once in each process.',
  },
  processes: {
    kind: 'integer',
    default: 1,
    min: 1,
    max: 256,
    sentence: 'Processes under one supervisor.',
  },
  lease: {
    kind: 'duration',
    default: '5s',
    embedded: '30s',
    min: '100ms',
    max: '1h',
    sentence:
      'Time without a heartbeat after which a process counts as dead and its tasks go to others.',
  },
  beat: {
    kind: 'duration',
    default: '1s',
    embedded: '3s',
    min: '10ms',
    max: '10m',
    sentence: 'Time between two heartbeats of a process.',
  },
  maxBlock: {
    kind: 'duration',
    default: '120s',
    min: '100ms',
    max: '1d',
    sentence: 'Longest time the event loop may stand still before the process is killed.',
  },
  timeout: {
    kind: 'duration',
    default: '0s',
    min: '0s',
    max: '30d',
    sentence:
      'An attempt of a task whose contract names no `timeout` is aborted after this; 0: never.',
  },
  idleTime: {
    kind: 'duration',
    default: '1s',
    min: '1ms',
    max: '1h',
    sentence: 'Longest sleep when no task is ready; a notification wakes the worker sooner.',
  },
  shutdownTimeout: {
    kind: 'duration',
    default: '30s',
    min: '0s',
    max: '1d',
    sentence: 'Time running tasks have to end after a stop; the rest is released for others.',
  },
  dedupWindow: {
    kind: 'duration',
    default: '15m',
    min: '1ms',
    max: '365d',
    sentence: 'Time a finished task is remembered, so that a late copy of it does not run again.',
  },
  resultTtl: {
    kind: 'duration',
    default: '1d',
    min: '1ms',
    max: '365d',
    sentence: 'How long a result is kept for its readers.',
  },
  maxIsolated: {
    kind: 'integer',
    default: 4,
    min: 1,
    max: 256,
    sentence: 'Handlers of mode `thread` or `process` run at once in each process.',
  },
  maxTasks: {
    kind: 'integer',
    default: 0,
    min: 0,
    max: 1_000_000_000,
    sentence: 'Tasks after which a process lets the ones it has end and is replaced; 0: never.',
  },
  maxMemoryMb: {
    kind: 'integer',
    default: 0,
    min: 0,
    max: 1_048_576,
    sentence:
      'Memory in MiB beyond which a process lets the tasks it has end and is replaced; 0: no limit.',
  },
  livenessFile: {
    kind: 'path',
    default: '',
    sentence: 'A file that is touched while the worker is healthy.',
  },
  healthPort: {
    kind: 'integer',
    default: 0,
    zeroIsNone: true,
    min: 0,
    max: 65_535,
    sentence: 'Port of an HTTP server that answers probes; 0: none.',
  },
  healthHost: {
    kind: 'host',
    default: '127.0.0.1',
    sentence:
      'Address that server listens on; 0.0.0.0 where probes come from elsewhere, as on Kubernetes.',
  },
  maxCheckpointBytes: {
    kind: 'integer',
    default: 67_108_864,
    min: 1,
    max: 1_073_741_824,
    sentence: 'Largest checkpoint, in bytes; one over 262144 is kept beside the ledger.',
  },
  checkpointFolder: {
    kind: 'path',
    default: '',
    sentence:
      'A folder that all workers and resurrectors share, for checkpoints over 262144 bytes. None: the database of the outbox.',
  },
  celeryControl: {
    kind: 'choice',
    default: 'on',
    whenSigning: 'inspect',
    choices: ['on', 'off', 'inspect', 'full'],
    sentence:
      "Answer Celery's remote control (`celery inspect`, `celery control`, Flower) on RabbitMQ and Redis. `inspect`: only answer questions; `on`: also revoke, shut down and take from queues that this worker knows; `full`: take from any queue.",
  },
  isolateKeys: {
    kind: 'choice',
    default: 'off',
    choices: ['on', 'off'],
    sentence:
      'Hand the signing keys of the environment to handlers of mode `thread` or `process`, which need them to send tasks.',
  },
  celeryEvents: {
    kind: 'choice',
    default: 'off',
    choices: ['on', 'off'],
    sentence:
      "Send Celery's events (`celery events`, Flower) on RabbitMQ and Redis; off: until remote control asks for them.",
  },
  trackStarted: {
    kind: 'choice',
    default: 'off',
    choices: ['on', 'off'],
    sentence:
      "Report `STARTED` to callers that wait for a result when its task begins, as Celery's `task_track_started` does.",
  },
});
