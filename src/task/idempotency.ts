import { hash } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import { sized } from './digest.ts';
import { durationMs, type Duration } from './duration.ts';
import { encodeJson } from './json.ts';
import { safeKey } from './names.ts';

/** What a contract says about duplicates. */
export interface Idempotency {
  /** Null: the input itself is the key. */
  readonly key: ((input: unknown) => string) | null;
  readonly ttlMs: number;
}

const DEFAULT_TTL: Duration = '24h';

/** Checks `idempotent` of a task's options. */
export function idempotencyOf(name: string, given: unknown): Idempotency | null {
  if (given === undefined || given === false) return null;
  if (given === true) return Object.freeze({ key: null, ttlMs: ttlOf(name, DEFAULT_TTL) });
  if (typeof given !== 'object' || given === null)
    throw refused(name, 'idempotent', 'Use true, or { key, ttl }.');
  const { key, ttl = DEFAULT_TTL, ...rest } = given as { key?: unknown; ttl?: Duration };
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw refused(name, `idempotent.${unknown}`, 'Known options are key, ttl.');
  if (key !== undefined && typeof key !== 'function')
    throw refused(name, 'idempotent.key', 'Give a function of the input: input => input.orderId.');
  return Object.freeze({
    key: (key as Idempotency['key'] | undefined) ?? null,
    ttlMs: ttlOf(name, ttl),
  });
}

function ttlOf(name: string, ttl: Duration): number {
  const ttlMs = durationMs(ttl, `idempotent.ttl of ${name}`);
  if (ttlMs >= 1) return ttlMs;
  throw refused(name, 'idempotent.ttl', "Give how long a result answers for others: '24h'.");
}

function refused(name: string, option: string, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` of ${name} is not what it must be`,
    hint,
    fields: { option },
  });
}

/** One call as others may repeat it. */
export interface KeyedCall {
  readonly name: string;
  readonly version: number;
  /** The input as it travelled, positional arguments by their names: f(1) and f(x=1) are one call. */
  readonly input: unknown;
}

/** What is asked for, and by whom it may be answered. */
export interface CallKey {
  readonly key: string;
  /** Of the input: the same key with another one is a mistake. */
  readonly digest: string;
}

/**
 * The key of a call. It begins with the whole name of the task, so that tasks never meet by chance, and nothing in it
 * changes from run to run.
 *
 * `current` is the input in the shape of the contract's own version, for the key function.
 */
export function callKey(
  { key }: Pick<Idempotency, 'key'>,
  call: KeyedCall,
  current: unknown,
): CallKey {
  const { name, version, input } = call;
  // The version too: the same numbers may mean cents in one and euros in the other.
  const text = input === undefined ? '' : canonicalJson(input);
  const digest = hash('sha256', sized(name) + sized(String(version)) + sized(text));
  const own = key === null ? digest : safeKey(key(current), `the idempotency key of ${name}`);
  return { key: taskKey(name, own), digest };
}

/** No name has a `#`, so no two pairs of name and key are one text. */
export const taskKey = (name: string, key: string): string => `${name}#${key}`;

/** Keys of free-standing code: no task has an empty name. */
export const lockKey = (key: string): string => taskKey('', safeKey(key, 'the idempotency key'));

/** The same text for the same value, whatever the order in which its members were written. */
export function canonicalJson(value: unknown): string {
  return encodeJson(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, item]) => [name, sorted(item)]));
}
