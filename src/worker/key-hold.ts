import { isUnavailable } from '../errors/error.ts';
import type { IdempotencyStore, KeyOwner } from '../idempotency/idempotency-store.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { toBytes } from '../task/json.ts';
import type { EffectKey } from './door.ts';
import type { Settlement } from './settlement.ts';

export interface HoldDeps {
  readonly keys: { readonly store: Pick<IdempotencyStore, 'complete' | 'free'> };
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly runtime: Runtime;
}

export interface HeldBy extends KeyOwner {
  readonly key: string;
  readonly ttlMs: number;
  /** The task that took the key when it was new. */
  readonly origin: string;
}

/** Between two tries of the same call. */
const RETRY_MS = 250;

/**
 * The key that a run has. The result is kept under the key before the ledger hears of it: a run that dies in between
 * leaves a result that the next run of the same task finds and commits. The other way round a duplicate would find a
 * holder that is done and no result, and have the effect again.
 */
export class KeyHold {
  readonly #by: HeldBy;
  readonly #deps: HoldDeps;
  #waiters: readonly string[] = [];

  constructor(by: HeldBy, deps: HoldDeps) {
    this.#by = by;
    this.#deps = deps;
  }

  /**
   * What effects of this run belong to: they are had once for all tasks that take the place of one another under this
   * key. When a result is forgotten the key begins anew, and so do they.
   */
  get effect(): EffectKey {
    const { origin, key, ttlMs } = this.#by;
    // No id has a space.
    return { key: `${origin} ${key}`, ttlMs };
  }

  /**
   * Keeps the value of a run that is done. `unknown`: the store does not answer and the run has been told to stop, so
   * nobody knows whether the result is there: the run must not commit. `refused`: the store can never take it. A key that
   * is another's by now is no obstacle: the ledger alone says who is the rightful run.
   */
  async complete(value: string, stop: AbortSignal): Promise<'kept' | 'unknown' | 'refused'> {
    const { keys, runtime } = this.#deps;
    for (let tries = 1; ; tries++) {
      try {
        const reply = await keys.store.complete({ ...this.#by, result: toBytes(value) });
        this.#waiters = reply.waiters;
        if (reply.status === 'stale')
          runtime.log.warn({ ...this.#by }, 'the idempotency key is not this run’s any more');
        return 'kept';
      } catch (error) {
        if (!isUnavailable(error)) {
          runtime.log.error({ error }, 'the store refuses the result of a run');
          return 'refused';
        }
        if (tries === 1) runtime.log.warn({ error }, 'a result cannot be kept; repeating it');
        if (stop.aborted) return 'unknown';
        await sleep(runtime.clock, RETRY_MS, stop);
      }
    }
  }

  /** The ledger has taken what the run ended with. Whoever is not told finds out by asking. */
  async ended(settlement: Settlement): Promise<void> {
    const { keys, ledger, runtime } = this.#deps;
    try {
      if (isOver(settlement)) {
        await runtime.faultPoint('worker.ended-not-freed');
        this.#waiters = (await keys.store.free(this.#by)).waiters;
      }
      if (this.#waiters.length > 0) await ledger.wake(this.#waiters);
    } catch (error) {
      runtime.log.warn({ error, key: this.#by.key }, 'those who wait for a key were not told');
    }
  }
}

/** Ended without a result: whoever comes next tries for himself. What comes back keeps its key. */
function isOver(settlement: Settlement): boolean {
  switch (settlement.kind) {
    case 'commit':
      return settlement.outcome.kind === 'discarded';
    case 'fail':
      return settlement.delayMs === null;
    case 'bury':
      return true;
    case 'release':
    case 'drop':
      return false;
  }
}
