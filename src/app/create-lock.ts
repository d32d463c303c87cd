import { LOCK_TIMES, runLocked, type LockStore } from '../idempotency/idempotency-lock.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import { HedgedStore } from '../runtime/hedged-store.ts';
import { durationMs } from '../task/duration.ts';
import type { Context } from '../context/context.ts';
import { spareIdempotency } from '../context/spare-links.ts';
import type { Outlast } from './outlast.ts';

/** `idempotencyLock` on the stores of an instance. */
export function createLock(context: Context): Outlast<never>['idempotencyLock'] {
  const { runtime, config } = context;
  let hedged: HedgedStore<IdempotencyStore> | null = null;
  let users = 0;
  return async (key, ttl, fn, { wait } = {}) => {
    const ttlMs = durationMs(ttl, 'ttl');
    const waitMs = wait === undefined ? null : durationMs(wait, 'wait');
    const { idempotency } = await context.stores();
    // Shared by all locks that are held at the same time, and so is its second connection.
    hedged ??= new HedgedStore(idempotency, spareIdempotency(config), runtime.clock, LOCK_TIMES);
    const [current, store] = [hedged, throughEither(hedged)];
    users += 1;
    try {
      return await runLocked({ key, ttlMs, waitMs, fn }, { store, runtime });
    } finally {
      users -= 1;
      if (users === 0) {
        hedged = null;
        await current.close();
      }
    }
  };
}

/** Each step is idempotent, so each may be sent on two connections. */
function throughEither(hedged: HedgedStore<IdempotencyStore>): LockStore {
  return {
    acquire: request => hedged.call(store => store.acquire(request)),
    renew: request => hedged.call(store => store.renew(request)),
    complete: request => hedged.call(store => store.complete(request)),
    free: request => hedged.call(store => store.free(request)),
  };
}
