import { isUnavailable } from '../../errors/error.ts';
import type { IdempotencyStore, KeyRun } from '../../idempotency/idempotency-store.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { backoffMs, type BackoffPolicy } from '../../runtime/backoff.ts';
import { sleep } from '../../runtime/clock.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { toBytes } from '../../task/json.ts';
import type { EffectKey } from '../effects/door.ts';
import type { Settlement } from './settlement.ts';

export interface HoldDeps {
  readonly keys: { readonly store: Pick<IdempotencyStore, 'complete' | 'free'> };
  readonly ledger: Pick<Ledger, 'wake'>;
  readonly runtime: Runtime;
}

export interface HeldBy extends KeyRun {
  readonly key: string;
  readonly ttlMs: number;
  /** The task that took the key when it was new. */
  readonly origin: string;
}

/** Between two tries of the same call. */
const RETRY: BackoffPolicy = { baseMs: 250, maxMs: 2_000, jitter: 'full' };

/**
 * The key that a run holds. The result is stored under the key before the ledger has it: a run that dies in between
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
   * The key that effects of this run belong to: they happen once for all tasks that succeed one another under this
   * key. When a result is forgotten the key starts anew, and so do they.
   */
  get effect(): EffectKey {
    const { origin, key, ttlMs } = this.#by;
    return { key, origin, ttlMs };
  }

  /**
   * Stores the value of a run that is done. `unknown`: the store does not answer and the run was asked to stop, so it is
   * unknown whether the result is there: the run must not commit. `refused`: the store can never take it. A key that
   * another task holds by now is no obstacle: the ledger alone decides which run is the rightful one.
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
        const waitMs = backoffMs(RETRY, tries - 1, 0.5 + runtime.random.next() / 2);
        await sleep(runtime.clock, waitMs, stop);
      }
    }
  }

  /** The ledger has accepted the settlement of the run. A waiter that is not notified finds out by polling. */
  async ended(settlement: Settlement): Promise<void> {
    const { keys, ledger, runtime } = this.#deps;
    try {
      if (isOver(settlement)) {
        await runtime.faultPoint('worker.ended-not-freed');
        this.#waiters = (await keys.store.free(this.#by)).waiters;
      }
      if (this.#waiters.length > 0) await ledger.wake(this.#waiters);
    } catch (error) {
      runtime.log.warn({ error, key: this.#by.key }, 'the waiters of a key were not notified');
    }
  }
}

/** Ended without a result: the next task tries for itself. A task that comes back keeps its key. */
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
