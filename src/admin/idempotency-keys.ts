import { isAlive } from '../idempotency/holder.ts';
import type { IdempotencyStore, KeyRecord } from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** A key as an operator sees it. */
export interface KeyDetails extends KeyRecord {
  /** Whether whoever holds it still has a life before it; false for a result. */
  readonly isHolderAlive: boolean;
}

/** `conflict`: its holder is alive, or it changed hands meanwhile. */
export type ResetStatus = 'ok' | 'absent' | 'conflict';

export interface KeyStores {
  readonly idempotency: Pick<IdempotencyStore, 'read' | 'free'>;
  readonly ledgerReads: Pick<LedgerReads, 'inspect'>;
  readonly ledger: Pick<Ledger, 'wake'>;
}

export async function showKey(
  { idempotency, ledgerReads }: KeyStores,
  key: string,
): Promise<KeyDetails | null> {
  const record = await idempotency.read(key);
  if (record === null) return null;
  // Free-standing code is alive for as long as its lease.
  const isLeased = record.state === 'held' && record.leftMs !== null;
  const isHolderAlive =
    record.state === 'held' && (isLeased || (await isAlive(record, ledgerReads)));
  return { ...record, isHolderAlive };
}

/** Forgets a result, what was done under a key that is free, or a holder that has ended; with `force` also one that is alive. Whoever waits is woken. */
export async function resetKey(
  stores: KeyStores,
  key: string,
  force: boolean,
): Promise<ResetStatus> {
  const found = await showKey(stores, key);
  if (found === null) return 'absent';
  if (found.isHolderAlive && !force) return 'conflict';
  const { taskId, epoch } = found;
  const { status, waiters } = await stores.idempotency.free({ key, taskId, epoch, evenDone: true });
  if (status === 'stale') return 'conflict';
  await stores.ledger.wake(waiters);
  return 'ok';
}
