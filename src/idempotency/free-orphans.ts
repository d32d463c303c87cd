import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isAlive } from './holder.ts';
import type { IdempotencyStore } from './idempotency-store.ts';

export interface OrphanDeps {
  readonly store: Pick<IdempotencyStore, 'review' | 'free'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly ledger: Pick<Ledger, 'wake'>;
}

/** A task may hold its key for long; reviewing it more often would only cost. */
const REVIEW_AFTER_MS = 3_600_000;

/**
 * Frees keys whose holder was ended by a reaper or an operator, which do not know of its key. A task that asks for such a
 * key takes it over anyway; this is for keys that no task asks for again. Returns how many were reviewed.
 */
export async function freeOrphans(deps: OrphanDeps, limit: number): Promise<number> {
  const { store, reads, ledger } = deps;
  const held = await store.review(REVIEW_AFTER_MS, limit);
  for (const { key, ...holder } of held) {
    if (await isAlive(holder, reads)) continue;
    const { taskId, epoch, run } = holder;
    const { waiters } = await store.free({ key, taskId, epoch, run });
    await ledger.wake(waiters);
  }
  return held.length;
}
