import { outlastError } from '../errors/error.ts';
import { durationMs, type Duration } from '../task/duration.ts';

/** A duration as people type it: a bare number is seconds. */
export function readDuration(text: string, flag: string): Duration {
  const duration = (/^(\d+\.?\d*|\.\d+)$/.test(text) ? `${Number(text)}s` : text) as Duration;
  durationMs(duration, flag);
  return duration;
}

export function readWhole(text: string, flag: string, least: number, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count >= least && count <= most) return count;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `${flag} is ${JSON.stringify(text)}`,
    hint: `Give a whole number from ${least} to ${most}.`,
    fields: { option: flag },
  });
}

/** Flags that are valid alone and invalid together, or of which one is missing. */
export function flagsConflict(flags: readonly string[], message: string, hint: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', { message, hint, fields: { options: flags } });
}
