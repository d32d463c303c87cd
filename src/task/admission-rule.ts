import { outlastError } from '../errors/error.ts';
import { rowOf } from '../options/option.ts';
import { ADMISSION_RULE_TABLE, RATE_TABLE } from '../options/task-table.ts';
import { durationMs, type Duration } from './duration.ts';
import type { AdmissionRuleOptions, RateOptions } from './options.generated.ts';

export type { AdmissionRuleOptions, RateOptions };

/** A rate, checked and complete. */
export interface Rate {
  readonly limit: number;
  readonly perMs: number;
  readonly burst: number;
}

/** At least one of the two is set. */
export interface AdmissionRule {
  readonly rate: Rate | null;
  readonly concurrency: number | null;
}

const MAX_LIMIT = rowOf(RATE_TABLE, 'limit', 'integer').max;
export const MAX_CONCURRENCY: number = rowOf(ADMISSION_RULE_TABLE, 'concurrency', 'integer').max;
/** The time in which a burst recovers must be one that every store can add to its clock: a hundred years. */
const LONGEST_US = 36_500 * 86_400_000_000;

/**
 * Microseconds between two grants after a burst. With `burst` at once and one more after each of these, no window as
 * long as `per`, wherever it begins, holds more than `limit`. Rounded up, so that it never holds one more.
 */
export function intervalUs({ limit, perMs, burst }: Rate): number {
  return Math.ceil((perMs * 1_000) / (limit + 1 - burst));
}

/** Refuses unknown keys; the caller decides how that is reported. */
export type RefuseUnknown = (keys: readonly string[], known: readonly string[]) => void;

/** Checks one rule. `option` names it in errors; `more` are keys that the caller reads itself. */
export function readAdmissionRule(
  given: unknown,
  option: string,
  refuseUnknown: RefuseUnknown,
  more: readonly string[] = [],
): AdmissionRule {
  const rule = recordOf(given, option);
  refuseUnknown(Object.keys(rule), [...Object.keys(ADMISSION_RULE_TABLE), ...more]);
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
  refuseUnknown(Object.keys(options), Object.keys(RATE_TABLE));
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
