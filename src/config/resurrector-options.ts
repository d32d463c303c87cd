import type { Duration } from '../task/duration.ts';
import {
  OptionReader,
  type Defaults,
  type NameOf,
  type Resolution,
  type Section,
} from './options.ts';

/** What a user may say about the resurrector. Durations are text with a unit. */
export interface ResurrectorOptions {
  /** Time between two looks for dead processes. @default '500ms' */
  readonly interval?: Duration | undefined;
  /** Tasks of a dead process brought back by one statement. @default 500 */
  readonly batchSize?: number | undefined;
  /** Age at which unfinished follow-up work of an ended task is done again. @default '5s' */
  readonly afterDelay?: Duration | undefined;
}

export const RESURRECTOR_DEFAULTS: Defaults<ResurrectorOptions> = Object.freeze({
  interval: '500ms',
  batchSize: 500,
  afterDelay: '5s',
});

/** What the resurrector runs on: checked, complete, in milliseconds. */
export interface ResolvedResurrectorOptions {
  readonly intervalMs: number;
  readonly batchSize: number;
  readonly afterDelayMs: number;
}

export const RESURRECTOR_SECTION: Section<ResurrectorOptions> = {
  name: 'resurrector',
  defaults: RESURRECTOR_DEFAULTS,
  rules: {
    interval: {
      kind: 'duration',
      min: '10ms',
      max: '1h',
      sentence: 'Time between two looks for dead processes.',
    },
    batchSize: {
      kind: 'integer',
      min: 1,
      max: 10_000,
      sentence: 'Tasks of a dead process brought back by one statement.',
    },
    afterDelay: {
      kind: 'duration',
      min: '0s',
      max: '1h',
      sentence: 'Age at which unfinished follow-up work of an ended task is done again.',
    },
  },
};

/** Recovery is promised within seconds; a longer interval is allowed and told. */
const LONG_INTERVAL_MS = 10_000;

/** Checks what was given, fills in the rest and holds the options against each other. */
export function resolveResurrectorOptions(
  given: ResurrectorOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedResurrectorOptions> {
  const reader = new OptionReader(RESURRECTOR_SECTION, given, nameOf);
  const options: ResolvedResurrectorOptions = Object.freeze({
    intervalMs: reader.durationMs('interval'),
    batchSize: reader.number('batchSize'),
    afterDelayMs: reader.durationMs('afterDelay'),
  });
  if (options.intervalMs > LONG_INTERVAL_MS) {
    reader.warn(
      `\`${reader.nameOf('interval')}\` is over 10 s: tasks of a lost host wait that much longer`,
    );
  }
  return { options, warnings: reader.warnings };
}
