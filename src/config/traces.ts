import type { SentryCapture, SentryLike } from '../telemetry/sentry-like.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';

/** What a user writes about traces. */
export interface TracesOptions {
  /** Spans for the tracer of `@opentelemetry/api`, and W3C headers in messages. @default false */
  readonly opentelemetry?: boolean | undefined;
  /** Sentry’s SDK (`import * as Sentry from '@sentry/node'`), for its headers in messages, in and out. @default none */
  readonly sentry?: SentryLike | undefined;
  /** Failures that become events of Sentry, with the task as context: every attempt, or dead letters only. @default none */
  readonly capture?: SentryCapture | undefined;
}

export interface ResolvedTraces {
  readonly opentelemetry: boolean;
  readonly sentry: SentryLike | null;
  readonly capture: SentryCapture | null;
}

const KEYS: readonly (keyof TracesOptions)[] = ['opentelemetry', 'sentry', 'capture'];
const NEEDED: readonly (keyof SentryLike)[] = [
  'getTraceData',
  'continueTrace',
  'startSpan',
  'captureException',
];

/** Checks the section of a configuration. */
export function readTraces(value: unknown): ResolvedTraces {
  const given = dropUndefined(asRecord(value ?? {}, 'traces'));
  refuseUnknown(Object.keys(given), KEYS, key => `traces.${key}`);
  const { opentelemetry = false, sentry = null, capture = null } = given;
  if (typeof opentelemetry !== 'boolean')
    throw rangeError('traces.opentelemetry', `is ${shown(opentelemetry)}`, 'Use true or false.');
  if (sentry !== null && !isSentry(sentry))
    throw rangeError(
      'traces.sentry',
      'is no SDK of Sentry',
      'Give all that @sentry/node exports: `{ sentry: Sentry }`.',
    );
  if (capture !== null && capture !== 'failed' && capture !== 'dead')
    throw rangeError('traces.capture', `is ${shown(capture)}`, "Use 'failed' or 'dead'.");
  if (capture !== null && sentry === null)
    throw rangeError('traces.capture', 'needs `traces.sentry`', 'Give the SDK too.');
  return Object.freeze({ opentelemetry, sentry, capture });
}

/** For people: an SDK is no setting that can be shown. */
export function shownTraces(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('sentry' in value)) return value;
  return { ...value, sentry: 'given' };
}

function isSentry(value: unknown): value is SentryLike {
  if (typeof value !== 'object' || value === null) return false;
  return NEEDED.every(name => typeof (value as Record<string, unknown>)[name] === 'function');
}
