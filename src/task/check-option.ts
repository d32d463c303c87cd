import { outlastError } from '../errors/error.ts';
import { nearest } from '../options/nearest.ts';
import type { StandardSchema } from './standard-schema.ts';

/** Throws for the first key that is not among the known ones; `whose` begins the sentence. */
export function refuseUnknown(
  keys: readonly string[],
  known: readonly string[],
  whose: string,
): void {
  const unknown = keys.find(key => !known.includes(key));
  if (unknown === undefined) return;
  const near = nearest(unknown, known);
  throw outlastError('ERR_UNKNOWN_OPTION', {
    message: `${whose} has an unknown option \`${unknown}\``,
    hint: near === null ? `Known options are ${known.join(', ')}.` : `Did you mean \`${near}\`?`,
    fields: { option: unknown, nearest: near },
  });
}

/** Checked here: otherwise an unusable result schema would fail only after the handler has had its effect. */
export function schemaOf(given: unknown, option: string): StandardSchema | null {
  if (given === undefined) return null;
  const { '~standard': standard } = Object(given) as Partial<StandardSchema>;
  if (typeof standard?.validate === 'function') return given as StandardSchema;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is no schema`,
    hint: 'Give a Standard Schema, as zod, valibot and arktype make them, or unchecked<T>().',
    fields: { option },
  });
}

export function inRange(value: number, option: string, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is ${String(value)}`,
    hint: `Use a whole number from ${min} to ${max}.`,
    fields: { option },
  });
}

interface Timeouts {
  readonly timeoutMs: number | null;
  readonly softTimeoutMs: number | null;
  readonly expiresMs: number | null;
}

/** The contract itself, unless its times contradict each other: reported where they are declared, not by the first run. */
export function checkTimeouts<C extends Timeouts>(name: string, contract: C): C {
  const { timeoutMs, softTimeoutMs, expiresMs } = contract;
  if (timeoutMs === 0) throw noTime(name, 'timeout', 'no attempt could ever succeed');
  if (expiresMs === 0) throw noTime(name, 'expires', 'it could never begin');
  if (timeoutMs !== null && softTimeoutMs !== null && softTimeoutMs >= timeoutMs) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the soft timeout of ${name} (${softTimeoutMs} ms) does not come before its timeout (${timeoutMs} ms)`,
      hint: 'Lower `softTimeout`, or raise `timeout`: a run is asked to stop first, and then ended.',
      fields: { options: ['softTimeout', 'timeout'] },
    });
  }
  return contract;
}

function noTime(name: string, option: 'timeout' | 'expires', so: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` of ${name} is no time at all: ${so}`,
    hint: "Give it a length, for example '30s', or leave it out.",
    fields: { option: `${option} of ${name}` },
  });
}
