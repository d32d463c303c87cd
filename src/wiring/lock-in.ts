import { runLocked } from '../idempotency/idempotency-lock.ts';
import { durationMs } from '../task/duration.ts';
import type { Internals } from './internals.ts';
import type { Outlast } from './outlast.ts';

/** `idempotencyLock` on the stores of an instance. */
export function lockIn(internals: Internals): Outlast<never>['idempotencyLock'] {
  return async (key, ttl, fn, { wait } = {}) => {
    const ttlMs = durationMs(ttl, 'ttl');
    const waitMs = wait === undefined ? null : durationMs(wait, 'wait');
    const { idempotency: store } = await internals.stores();
    const { runtime } = internals;
    return await runLocked({ key, ttlMs, waitMs, fn }, { store, runtime });
  };
}
