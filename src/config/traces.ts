import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

/** What a user writes about traces. */
export interface TracesOptions {
  /** Spans for the tracer of `@opentelemetry/api`, and W3C headers in messages. @default false */
  readonly opentelemetry?: boolean | undefined;
}

export interface ResolvedTraces {
  readonly opentelemetry: boolean;
}

const KEYS: readonly (keyof TracesOptions)[] = ['opentelemetry'];

/** Checks the section of a configuration. */
export function readTraces(value: unknown): ResolvedTraces {
  const given = dropUndefined(asRecord(value ?? {}, 'traces'));
  refuseUnknown(Object.keys(given), KEYS, key => `traces.${key}`);
  const { opentelemetry = false } = given;
  if (typeof opentelemetry !== 'boolean')
    throw rangeError('traces.opentelemetry', `is ${shown(opentelemetry)}`, 'Use true or false.');
  return Object.freeze({ opentelemetry });
}
