import { safeName } from '../task/names.ts';
import { rangeError, shown } from './options.ts';

/** Queue names, or names with weights: a queue of weight 3 is polled three times as often. */
export type Queues = readonly string[] | Readonly<Record<string, number>>;

/** Higher weights could not be polled evenly within one second. */
const MAX_WEIGHT = 1_000;
const HINT =
  "Name queues once: ['billing', 'default'], or with weights from 1 to 1000: { billing: 3 }.";

/** Every queue with its weight, in the order they were named. */
export function resolveQueues(value: unknown, option: string): Readonly<Record<string, number>> {
  if (typeof value !== 'object' || value === null) {
    throw rangeError(option, `is ${shown(value)}`, HINT);
  }
  const entries: [unknown, unknown][] = Array.isArray(value)
    ? value.map(name => [name, 1])
    : Object.entries(value);
  return weighted(entries, option);
}

function weighted(
  entries: readonly (readonly [unknown, unknown])[],
  option: string,
): Readonly<Record<string, number>> {
  if (entries.length === 0) throw rangeError(option, 'names no queue', HINT);
  const weights = new Map<string, number>();
  for (const [given, weight] of entries) {
    const name = safeName(given as string, 'queue');
    if (weights.has(name)) throw rangeError(option, `names \`${name}\` twice`, HINT);
    if (!Number.isInteger(weight) || (weight as number) < 1 || (weight as number) > MAX_WEIGHT) {
      throw rangeError(option, `gives \`${name}\` the weight ${shown(weight)}`, HINT);
    }
    weights.set(name, weight as number);
  }
  return Object.freeze(Object.fromEntries(weights));
}

const DIGITS = /^\d+$/;

/** Reads `a=3,b`, as flags and variables spell it. */
export function queuesFromText(text: string, option: string): Readonly<Record<string, number>> {
  const entries = text.split(',').map((part): [string, unknown] => {
    const [name = '', weight, ...rest] = part.trim().split('=');
    if (weight === undefined) return [name, 1];
    return [name, rest.length === 0 && DIGITS.test(weight) ? Number(weight) : part];
  });
  return weighted(entries, option);
}
