import type { Duration } from '../task/duration.ts';
import {
  OptionReader,
  type Defaults,
  type NameOf,
  type Resolution,
  type Section,
} from './options.ts';

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
  /**
   * Seconds a claim lasts under a living relay; a dead relay's rows are free within seconds.
   * @default 300
   */
  readonly staleTimeoutSeconds?: number | undefined;
  /** Time one publish attempt may take. @default '10s' */
  readonly sendTimeout?: Duration | undefined;
  /**
   * Time after a stop in which new publishes may still start; what is left is released at once.
   * @default '30s'
   */
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
  /** A file that is touched while the relay is healthy. @default none */
  readonly livenessFile?: string | undefined;
  /** Port of an HTTP server that answers probes; 0: none. @default 0 */
  readonly healthPort?: number | undefined;
  /**
   * Spread of the waits: `tenth` adds up to a tenth of the base, `full` draws from the whole wait.
   * @default 'tenth'
   */
  readonly jitter?: 'tenth' | 'full' | undefined;
}

export const RELAY_DEFAULTS: Defaults<RelayOptions> = Object.freeze({
  batchSize: 100,
  idleTime: '1s',
  backoffTime: '120s',
  maxBackoff: '3600s',
  maxRetries: 5,
  staleTimeoutSeconds: 300,
  sendTimeout: '10s',
  shutdownTimeout: '30s',
  brokerOutageCooldown: '30s',
  publishConcurrency: 1,
  queueSnapshotRefreshSeconds: 5,
  receiptTimeout: '15m',
  livenessFile: '',
  healthPort: 0,
  jitter: 'tenth',
});

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
  readonly livenessFile: string | null;
  readonly healthPort: number | null;
  readonly jitter: 'tenth' | 'full';
}

export const RELAY_SECTION: Section<RelayOptions> = {
  name: 'relay',
  defaults: RELAY_DEFAULTS,
  rules: {
    batchSize: { kind: 'integer', min: 1, max: 10_000, sentence: 'Rows claimed at once.' },
    idleTime: {
      kind: 'duration',
      min: '1ms',
      max: '1h',
      sentence: 'Longest sleep when nothing is due; a notification wakes the relay sooner.',
    },
    backoffTime: {
      kind: 'duration',
      min: '1ms',
      max: '1d',
      sentence: 'Wait after the first failed publish; it doubles with every further one.',
    },
    maxBackoff: {
      kind: 'duration',
      min: '1ms',
      max: '30d',
      sentence: 'Longest wait between two publish attempts.',
    },
    maxRetries: {
      kind: 'integer',
      min: 1,
      max: 1_000,
      sentence: 'Publish attempts before a row becomes a dead letter.',
    },
    staleTimeoutSeconds: {
      kind: 'seconds',
      min: 1,
      max: 86_400,
      sentence:
        "Seconds a claim lasts under a living relay; a dead relay's rows are free within seconds.",
    },
    sendTimeout: {
      kind: 'duration',
      min: '1ms',
      max: '1h',
      sentence: 'Time one publish attempt may take.',
    },
    shutdownTimeout: {
      kind: 'duration',
      min: '0s',
      max: '1h',
      sentence:
        'Time after a stop in which new publishes may still start; what is left is released at once.',
    },
    brokerOutageCooldown: {
      kind: 'duration',
      min: '1ms',
      max: '1h',
      sentence:
        'How long rows wait after an outage of the broker, and a broker is left alone after two; costs no retry.',
    },
    publishConcurrency: {
      kind: 'integer',
      min: 1,
      max: 10_000,
      sentence: 'Messages on their way to the broker and not confirmed; 1 is strictly serial.',
    },
    queueSnapshotRefreshSeconds: {
      kind: 'seconds',
      min: 0.1,
      max: 3_600,
      sentence: 'Seconds between two looks at the figures of the outbox.',
    },
    receiptTimeout: {
      kind: 'duration',
      min: '1s',
      max: '7d',
      sentence:
        'How long a task that asks for end-to-end durability may be unknown to the ledger before it is published again.',
    },
    livenessFile: {
      kind: 'path',
      sentence: 'A file that is touched while the relay is healthy.',
    },
    healthPort: {
      kind: 'integer',
      min: 0,
      max: 65_535,
      sentence: 'Port of an HTTP server that answers probes; 0: none.',
    },
    jitter: {
      kind: 'choice',
      choices: ['tenth', 'full'],
      sentence:
        'Spread of the waits: `tenth` adds up to a tenth of the base, `full` draws from the whole wait.',
    },
  },
};

/** Checks what was given, fills in the rest and holds the options against each other. */
export function resolveRelayOptions(
  given: RelayOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedRelayOptions> {
  const reader = new OptionReader(RELAY_SECTION, given, nameOf);
  const options: ResolvedRelayOptions = Object.freeze({
    batchSize: reader.number('batchSize'),
    idleTimeMs: reader.durationMs('idleTime'),
    backoffTimeMs: reader.durationMs('backoffTime'),
    maxBackoffMs: reader.durationMs('maxBackoff'),
    maxRetries: reader.number('maxRetries'),
    staleTimeoutMs: reader.secondsMs('staleTimeoutSeconds'),
    sendTimeoutMs: reader.durationMs('sendTimeout'),
    shutdownTimeoutMs: reader.durationMs('shutdownTimeout'),
    brokerOutageCooldownMs: reader.durationMs('brokerOutageCooldown'),
    publishConcurrency: reader.number('publishConcurrency'),
    queueSnapshotRefreshMs: reader.secondsMs('queueSnapshotRefreshSeconds'),
    receiptTimeoutMs: reader.durationMs('receiptTimeout'),
    livenessFile: reader.path('livenessFile'),
    healthPort: reader.number('healthPort') || null,
    jitter: reader.choice('jitter'),
  });
  checkRelations(options, reader);
  return { options, warnings: reader.warnings };
}

function checkRelations(options: ResolvedRelayOptions, reader: OptionReader<RelayOptions>): void {
  const { nameOf } = reader;
  const { staleTimeoutMs, sendTimeoutMs } = options;
  // A claim that ends during a publish lets a second relay publish the same row beside the first.
  if (staleTimeoutMs <= sendTimeoutMs) {
    reader.conflict(
      ['staleTimeoutSeconds', 'sendTimeout'],
      `a claim of ${staleTimeoutMs} ms would end during a publish of up to ${sendTimeoutMs} ms`,
      `Raise \`${nameOf('staleTimeoutSeconds')}\` above \`${nameOf('sendTimeout')}\`.`,
    );
  }
  if (options.maxBackoffMs < options.backoffTimeMs) {
    reader.warn(
      `\`${nameOf('maxBackoff')}\` is under \`${nameOf('backoffTime')}\`: every wait is the shorter one`,
    );
  }
  if (options.publishConcurrency > options.batchSize) {
    reader.warn(
      `\`${nameOf('publishConcurrency')}\` is over \`${nameOf('batchSize')}\`: so many rows are seldom claimed`,
    );
  }
  if (options.idleTimeMs > 30_000) {
    reader.warn(
      `\`${nameOf('idleTime')}\` is over 30 s: where no notification comes, a due row waits that long`,
    );
  }
  if (options.brokerOutageCooldownMs > 300_000) {
    reader.warn(
      `\`${nameOf('brokerOutageCooldown')}\` is over 5 min: so long may it take to see that the broker is back`,
    );
  }
}
