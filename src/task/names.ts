import { outlastError } from '../errors/error.ts';

// One linear pattern for everything that becomes a key, an identifier or a line in a log. Celery's task
// names, ids and queue names fit; quotes, braces, spaces, control characters and `__proto__`-like
// first characters do not matter to us, but they do to the stores and terminals behind us.
const SAFE = /^[A-Za-z0-9_.:@/-]{1,128}$/;

/** The name itself, or `ERR_NAME_UNSAFE`. */
export function safeName(
  value: string,
  what: 'task name' | 'task id' | 'queue' | 'step' | 'outbox' | 'schedule',
): string {
  if (typeof value === 'string' && SAFE.test(value)) return value;
  throw outlastError('ERR_NAME_UNSAFE', {
    message: `${what} ${JSON.stringify(typeof value === 'string' ? value.slice(0, 140) : typeof value)} is not allowed`,
    hint: 'Use 1 to 128 letters, digits and _ . : @ / - only.',
    fields: { what },
  });
}

const LONE_SURROGATE = /\p{Surrogate}/u;
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const KEY = /^[^\u0000-\u001f\u007f]{1,255}$/;

/** Keys may hold more (a URL, an e-mail address), but nothing that a store cannot hold. */
export function safeKey(value: string, what: string): string {
  if (typeof value === 'string' && KEY.test(value) && !LONE_SURROGATE.test(value)) return value;
  throw outlastError('ERR_NAME_UNSAFE', {
    message: `${what} is not allowed as a key`,
    hint: 'Use 1 to 255 characters without control characters.',
    fields: { what },
  });
}

/**
 * A value, or the promise of one. Most of what a send waits for is there at once, and a promise costs a microtask in the
 * caller's open transaction.
 */
export type Soon<T> = T | Promise<T>;

/** Calls `next` with the value, as soon as it is there. */
export function soon<T, R>(value: Soon<T>, next: (value: T) => Soon<R>): Soon<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** All values, in order. An error thrown beside promises rejects with them, so that no rejection is unhandled. */
export function soonAll<T, R>(
  items: readonly T[],
  make: (item: T, index: number) => Soon<R>,
): Soon<readonly R[]> {
  let isReady = true;
  const made = items.map((item, index): Soon<R> => {
    const value = isReady ? make(item, index) : attempt(() => make(item, index));
    if (value instanceof Promise) isReady = false;
    return value;
  });
  return isReady ? (made as R[]) : Promise.all(made);
}

async function attempt<R>(make: () => Soon<R>): Promise<R> {
  return await make();
}
