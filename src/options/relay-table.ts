import type { OptionTable } from './option.ts';

/** What a user may say about the relay. */
export const RELAY_TABLE: OptionTable = Object.freeze({
  batchSize: {
    kind: 'integer',
    default: 100,
    min: 1,
    max: 10_000,
    sentence: 'Rows claimed at once.',
  },
  idleTime: {
    kind: 'duration',
    default: '1s',
    min: '1ms',
    max: '1h',
    sentence: 'Longest sleep when nothing is due; a notification wakes the relay sooner.',
  },
  backoffTime: {
    kind: 'duration',
    default: '120s',
    min: '1ms',
    max: '1d',
    sentence: 'Wait after the first failed publish; it doubles with every further one.',
  },
  maxBackoff: {
    kind: 'duration',
    default: '3600s',
    min: '1ms',
    max: '30d',
    sentence: 'Longest wait between two publish attempts.',
  },
  maxRetries: {
    kind: 'integer',
    default: 5,
    min: 1,
    max: 1_000,
    sentence: 'Publish attempts before a row becomes a dead letter.',
  },
  staleTimeoutSeconds: {
    kind: 'seconds',
    default: 300,
    min: 1,
    max: 86_400,
    sentence:
      "Seconds a claim lasts under a living relay; a dead relay's rows are free within seconds.",
  },
  sendTimeout: {
    kind: 'duration',
    default: '10s',
    min: '1ms',
    max: '1h',
    sentence: 'Time one publish attempt may take.',
  },
  shutdownTimeout: {
    kind: 'duration',
    default: '30s',
    min: '0s',
    max: '1h',
    sentence:
      'Time after a stop in which new publishes may still start; what is left is released at once.',
  },
  brokerOutageCooldown: {
    kind: 'duration',
    default: '30s',
    min: '1ms',
    max: '1h',
    sentence:
      'How long rows wait after an outage of the broker, and a broker is left alone after two; costs no retry.',
  },
  publishConcurrency: {
    kind: 'integer',
    default: 1,
    min: 1,
    max: 10_000,
    sentence: 'Messages on their way to the broker and not confirmed; 1 is strictly serial.',
  },
  queueSnapshotRefreshSeconds: {
    kind: 'seconds',
    default: 5,
    min: 0.1,
    max: 3_600,
    sentence: 'Seconds between two looks at the figures of the outbox.',
  },
  receiptTimeout: {
    kind: 'duration',
    default: '15m',
    min: '1s',
    max: '7d',
    sentence:
      'How long a task that asks for end-to-end durability may be unknown to the ledger before it is published again.',
  },
  lifeLine: {
    kind: 'boolean',
    default: false,
    sentence:
      'Whether messages say when a relay claimed and published them, for `outlast tasks inspect`. Costs some of the rate of workers.',
  },
  livenessFile: {
    kind: 'path',
    default: '',
    sentence: 'A file that is touched while the relay is healthy.',
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
  jitter: {
    kind: 'choice',
    default: 'tenth',
    choices: ['tenth', 'full'],
    sentence:
      'Spread of the waits: `tenth` adds up to a tenth of the base, `full` draws from the whole wait.',
  },
});
