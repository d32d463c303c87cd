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
