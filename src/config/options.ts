import { outlastError, type OutlastError } from '../errors/error.ts';
import { nearest } from '../options/nearest.ts';

/** The stages that have options of their own, in the order of a task's life. */
export const SECTION_NAMES = ['relay', 'worker', 'resurrector'] as const;
export type SectionName = (typeof SECTION_NAMES)[number];

/**
 * The name of an option where it was given: `relay.batchSize`, `--batch-size` or its variable.
 */
export type NameOf = (key: string) => string;

export function rangeError(option: string, problem: string, hint: string): OutlastError {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` ${problem}`,
    hint,
    fields: { option },
  });
}

/** A value as written in the source, short enough for a message. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** The options as a record, or `ERR_OPTION_RANGE` for anything that has no named members. */
export function asRecord(value: unknown, option: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  // A URL that was written here by mistake may hold a password.
  const what = typeof value === 'string' ? 'a text' : shown(value);
  throw rangeError(option, `is ${what}`, 'Write an object: { key: value }.');
}

/** A member that is `undefined` counts as not given, so conditional values need no spread. */
export function dropUndefined(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Rejects unknown keys: a misspelt option that is ignored is found at night. */
export function refuseUnknown(
  given: readonly string[],
  known: readonly string[],
  nameOf: NameOf,
): void {
  for (const key of given) {
    if (!known.includes(key)) throw unknownOption(nameOf(key), key, known);
  }
}

function unknownOption(name: string, key: string, known: readonly string[]): OutlastError {
  const near = nearest(key, known);
  return outlastError('ERR_UNKNOWN_OPTION', {
    message: `\`${name}\` is not an option`,
    hint: near === null ? `Known options are ${known.join(', ')}.` : `Did you mean \`${near}\`?`,
    fields: { option: name, nearest: near },
  });
}
