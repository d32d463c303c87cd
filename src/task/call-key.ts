import { hash } from 'node:crypto';
import { sized } from './digest.ts';
import type { Idempotency } from './idempotency.ts';
import { encodeJson } from './json.ts';
import { safeKey } from './names.ts';

/** One call that other senders may repeat. */
export interface KeyedCall {
  readonly name: string;
  readonly version: number;
  /** The input as it travelled, positional arguments by their names: f(1) and f(x=1) are one call. */
  readonly input: unknown;
}

/** The key of a call and the digest of its input. */
export interface CallKey {
  readonly key: string;
  /** Of the input: the same key with another one is a mistake. */
  readonly digest: string;
}

/**
 * The key of a call. It begins with the whole name of the task, so that keys of two tasks never collide, and nothing in it
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

/** No name contains a `#`, so no two pairs of name and key give the same text. */
const taskKey = (name: string, key: string): string => `${name}#${key}`;

/** Keys of free-standing code: no task has an empty name. */
export const lockKey = (key: string): string => taskKey('', safeKey(key, 'the idempotency key'));

/** The same text for the same value, whatever the order of its members. */
export function canonicalJson(value: unknown): string {
  return encodeJson(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, item]) => [name, sorted(item)]));
}
