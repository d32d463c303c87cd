import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isAlive } from './holder.ts';
import type { IdempotencyStore } from './idempotency-store.ts';

export interface OrphanDeps {
  readonly store: Pick<IdempotencyStore, 'review' | 'free'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly ledger: Pick<Ledger, 'wake'>;
}

/** A task may hold its key for long; looking at it more often would only cost. */
const REVIEW_AFTER_MS = 3_600_000;

/**
 * Frees keys whose holder ended where nobody knew of its key: in a reaper, or by an operator. Whoever asks for such a key
 * takes it over anyway; this is for keys that nobody asks for again. Returns how many were looked at.
 */
export async function freeOrphans(deps: OrphanDeps, limit: number): Promise<number> {
  const { store, reads, ledger } = deps;
  const held = await store.review(REVIEW_AFTER_MS, limit);
  for (const { key, ...holder } of held) {
    if (await isAlive(holder, reads)) continue;
    const { taskId, epoch } = holder;
    const { waiters } = await store.free({ key, taskId, epoch });
    await ledger.wake(waiters);
  }
  return held.length;
}
