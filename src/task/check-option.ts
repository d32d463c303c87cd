import { outlastError } from '../errors/error.ts';
import type { StandardSchema } from './standard-schema.ts';

/** Throws for the first key that is not among the known ones; `whose` begins the sentence. */
export function refuseUnknown(
  keys: readonly string[],
  known: readonly string[],
  whose: string,
): void {
  const unknown = keys.find(key => !known.includes(key));
  if (unknown === undefined) return;
  throw outlastError('ERR_UNKNOWN_OPTION', {
    message: `${whose} has an unknown option \`${unknown}\``,
    hint: `Known options are ${known.join(', ')}.`,
    fields: { option: unknown, nearest: null },
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
