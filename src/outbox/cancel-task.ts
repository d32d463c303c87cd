import type { CancelStatus, Ledger } from '../ledger/ledger.ts';
import type { OutboxStore } from './outbox-store.ts';

/**
 * First the tombstone, then the row of a task that waits to be published: the tombstone turns away what is on its way by
 * then, and has an end; an eta may be later.
 */
export async function cancelTask(
  id: string,
  {
    ledger,
    outbox,
  }: { readonly ledger: Pick<Ledger, 'cancel'>; readonly outbox: Pick<OutboxStore, 'withdraw'> },
): Promise<CancelStatus> {
  const status = await ledger.cancel(id);
  if (status === 'ok') await outbox.withdraw(id);
  return status;
}
