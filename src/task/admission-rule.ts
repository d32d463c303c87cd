import { outlastError } from '../errors/error.ts';
import { durationMs, type Duration } from './duration.ts';

/** At most `limit` in any length of time `per`, and no more than `burst` of them at once. */
export interface RateOptions {
  readonly limit: number;
  readonly per: Duration;
  /** @default a tenth of the limit, rounded up */
  readonly burst?: number | undefined;
}

/** What may be limited. */
export interface AdmissionRuleOptions {
  /** How many may come in. */
  readonly rate?: RateOptions | undefined;
  /** How many may run at the same time. */
  readonly concurrency?: number | undefined;
}

/** A rate, checked and complete. */
export interface Rate {
  readonly limit: number;
  readonly perMs: number;
  readonly burst: number;
}

/** One of the two at least is there. */
export interface AdmissionRule {
  readonly rate: Rate | null;
  readonly concurrency: number | null;
}

const MAX_LIMIT = 1_000_000_000;
export const MAX_CONCURRENCY = 1_000_000;
/** What a burst takes to come back must be a time that every store can add to its clock: a hundred years. */
const LONGEST_US = 36_500 * 86_400_000_000;

/**
 * Microseconds from one to the next after a burst. With `burst` at once and one more after each of these, no window as
 * long as `per`, wherever it begins, holds more than `limit`. Rounded up, so that it never holds one more.
 */
export function intervalUs({ limit, perMs, burst }: Rate): number {
  return Math.ceil((perMs * 1_000) / (limit + 1 - burst));
}

/** Refuses keys nobody reads; the place of the rule decides how that is told. */
export type RefuseUnknown = (keys: readonly string[], known: readonly string[]) => void;

/** Checks one rule. `option` names it in errors; `more` are keys that somebody else reads. */
export function readAdmissionRule(
  given: unknown,
  option: string,
  refuseUnknown: RefuseUnknown,
  more: readonly string[] = [],
): AdmissionRule {
  const rule = recordOf(given, option);
  refuseUnknown(Object.keys(rule), ['rate', 'concurrency', ...more]);
  const { rate, concurrency } = rule;
  if (rate === undefined && concurrency === undefined)
    throw rangeError(option, 'limits nothing', 'Give it a `rate`, a `concurrency`, or both.');
  return Object.freeze({
    rate: rate === undefined ? null : readRate(rate, `${option}.rate`, refuseUnknown),
    concurrency:
      concurrency === undefined
        ? null
        : wholeOf(concurrency, `${option}.concurrency`, MAX_CONCURRENCY),
  });
}

function readRate(given: unknown, option: string, refuseUnknown: RefuseUnknown): Rate {
  const options = recordOf(given, option);
  refuseUnknown(Object.keys(options), ['limit', 'per', 'burst']);
  const limit = wholeOf(options['limit'], `${option}.limit`, MAX_LIMIT);
  const perMs = durationMs(options['per'] as Duration, `${option}.per`);
  if (perMs < 1) throw rangeError(`${option}.per`, 'is no time at all', "Use '1ms' or more.");
  const { burst = Math.ceil(limit / 10) } = options;
  const rate = { limit, perMs, burst: wholeOf(burst, `${option}.burst`, limit) };
  if (limit > perMs * 1_000)
    throw rangeError(`${option}.limit`, 'is more than one in a microsecond', 'Leave the rate out.');
  if (rate.burst * intervalUs(rate) > LONGEST_US)
    throw rangeError(
      `${option}.burst`,
      `is ${rate.burst}: such a burst would need more than a hundred years to come back`,
      'Use a smaller burst: what is left of the limit is how fast it comes back.',
    );
  return Object.freeze(rate);
}

function recordOf(value: unknown, option: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw rangeError(option, `is ${String(value)}`, 'Write an object: { rate: …, concurrency: … }.');
}

function wholeOf(value: unknown, option: string, max: number): number {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max)
    return value as number;
  throw rangeError(option, `is ${String(value)}`, `Use a whole number from 1 to ${max}.`);
}

function rangeError(option: string, problem: string, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` ${problem}`,
    hint,
    fields: { option },
  });
}
