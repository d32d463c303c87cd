/**
 * The only source of time in the core. Production uses `systemClock`; the simulator drives a
 * virtual one, so no test has to sleep. This clock never decides whether a lease is over: only
 * the store's does.
 */
export interface Clock {
  /** Wall time in milliseconds since the epoch. For people and for `eta`, never for safety. */
  now(): number;
  /** A clock that never jumps, in milliseconds. For deadlines of this process. */
  monotonic(): number;
  /** Calls `fn` after `ms`; the returned function cancels it. */
  timer(ms: number, fn: () => void): () => void;
}

/** Resolves after `ms`, or at once when the signal aborts. It never rejects: callers check the signal. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.timer(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Node's `setTimeout` fires at once for anything longer than this. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  // Not performance.now(): that starts anew in every thread, and the heartbeat thread sends its times to this one.
  monotonic: () => Number(process.hrtime.bigint()) / 1_000_000,
  timer: (ms, fn) => {
    const handle = setTimeout(fn, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    return () => clearTimeout(handle);
  },
};
