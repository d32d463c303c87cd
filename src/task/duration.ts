import { outlastError } from '../errors/error.ts';

type Unit = 'ms' | 's' | 'm' | 'h' | 'd';

/** A length of time with its unit: `'250ms'`, `'30s'`, `'5m'`, `'2h'`, `'7d'`. */
export type Duration = `${number}${Unit}`;

const UNIT_MS: Readonly<Record<Unit, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
/** A hundred years: longer is a mistake, and more than a database can add to a time. */
const LONGEST_MS = 36_500 * UNIT_MS.d;
const PATTERN = /^(\d{1,15}(?:\.\d{1,6})?)(ms|s|m|h|d)$/;

/** The milliseconds of a duration. `option` names it in the error. */
export function durationMs(duration: Duration, option: string): number {
  const match = typeof duration === 'string' ? PATTERN.exec(duration) : null;
  if (!match) {
    throw outlastError('ERR_OPTION_UNIT', {
      message: `\`${option}\` is ${JSON.stringify(duration)}, which is not a duration`,
      hint: "Write a number with its unit, for example '250ms', '30s', '5m', '2h' or '7d'.",
      fields: { option },
    });
  }
  const ms = Number(match[1]) * UNIT_MS[match[2] as Unit];
  if (ms <= LONGEST_MS) return ms;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is ${duration}`,
    hint: 'Use at most a hundred years: 36500d.',
    fields: { option },
  });
}
