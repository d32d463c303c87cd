import {
  type IdempotencyStore,
  type KeyRecord,
  isAlive,
} from '../idempotency/idempotency-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { FenceRows } from '../recovery/fence-rows.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** A key, for operators. */
export interface KeyDetails extends KeyRecord {
  /** Whether the holder may still run; false for a result. */
  readonly isHolderAlive: boolean;
}

/** `conflict`: its holder is alive, or it has another holder by now. */
export type ResetStatus = 'ok' | 'absent' | 'conflict';

export interface KeyStores {
  readonly idempotency: Pick<IdempotencyStore, 'read' | 'free'>;
  readonly ledgerReads: Pick<LedgerReads, 'inspect'>;
  readonly ledger: Pick<Ledger, 'wake'>;
  /** The fences of every database that may have effects under a key. */
  readonly fences: Pick<FenceRows, 'forgetKey'>;
}

export async function showKey(
  { idempotency, ledgerReads }: Pick<KeyStores, 'idempotency' | 'ledgerReads'>,
  key: string,
): Promise<KeyDetails | null> {
  const record = await idempotency.read(key);
  if (record === null) return null;
  // Free-standing code counts as alive until its lease ends.
  const isLeased = record.state === 'held' && record.leftMs !== null;
  const isHolderAlive =
    record.state === 'held' && (isLeased || (await isAlive(record, ledgerReads)));
  return { ...record, isHolderAlive };
}

/**
 * Forgets a result, what was done under a free key, or a holder that has ended; with `force` also a live one. Waiters are
 * woken.
 */
export async function resetKey(
  stores: KeyStores,
  key: string,
  force: boolean,
): Promise<ResetStatus> {
  const found = await showKey(stores, key);
  // The key store may have been replaced, or have lost its data: the effects are where they were.
  if (found === null) return (await stores.fences.forgetKey(key)) ? 'ok' : 'absent';
  if (found.isHolderAlive && !force) return 'conflict';
  const { taskId, epoch, run } = found;
  const holder = { key, taskId, epoch, run };
  // First: the next holder of the key then has its effects anew.
  await stores.fences.forgetKey(key);
  const { status, waiters } = await stores.idempotency.free({ ...holder, evenDone: true });
  if (status === 'stale') return 'conflict';
  await stores.ledger.wake(waiters);
  return 'ok';
}
