import { outlastError } from '../errors/error.ts';

/** The key used when the store itself is full. */
export const STORE_KEY = 'store:memory';
/** Tasks that were refused together return spread over this part of their wait, and over this time at least. */
const SPREAD = 0.25;
const LEAST_SPREAD_MS = 100;

/** Later, and not all at once. */
export function spread(waitMs: number, random: number): number {
  return Math.ceil(waitMs + Math.max(LEAST_SPREAD_MS, waitMs * SPREAD) * random);
}

export function rejected(name: string, key: string, retryAfterMs: number, why: string): Error {
  return outlastError('ERR_ADMISSION_REJECTED', {
    message: `${name} is not admitted now: ${why}`,
    hint: `Ask again in ${retryAfterMs} ms, or raise the limit.`,
    fields: { key, retryAfterMs },
  });
}
