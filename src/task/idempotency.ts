import { outlastError } from '../errors/error.ts';
import { defaultDuration, rowOf } from '../options/option.ts';
import { TASK_TABLE } from '../options/task-table.ts';
import { durationMs, type Duration } from './duration.ts';

/** A contract's rule for duplicates. */
export interface Idempotency {
  /** Null: the input itself is the key. */
  readonly key: ((input: unknown) => string) | null;
  readonly ttlMs: number;
}

const { members } = rowOf(TASK_TABLE, 'idempotent', 'group');
const DEFAULT_TTL: Duration = defaultDuration(members, 'ttl');

/** Checks `idempotent` of a task's options. */
export function idempotencyOf(name: string, given: unknown): Idempotency | null {
  if (given === undefined || given === false) return null;
  if (given === true) return Object.freeze({ key: null, ttlMs: ttlOf(name, DEFAULT_TTL) });
  if (typeof given !== 'object' || given === null)
    throw refused(name, 'idempotent', 'Use true, or { key, ttl }.');
  const { key, ttl = DEFAULT_TTL } = given as { key?: unknown; ttl?: Duration };
  const unknown = Object.keys(given).find(member => !Object.hasOwn(members, member));
  if (unknown !== undefined)
    throw refused(
      name,
      `idempotent.${unknown}`,
      `Known options are ${Object.keys(members).join(', ')}.`,
    );
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
