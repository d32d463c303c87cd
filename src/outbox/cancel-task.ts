import type { CancelStatus, Ledger } from '../ledger/ledger.ts';
import { hasFollowUps } from '../task/signature.ts';
import { wantsReply } from '../wire/reply.ts';
import type { OutboxStore } from './outbox-store.ts';

/**
 * First the tombstone, then the row of a task that waits to be published: the tombstone rejects copies already in
 * flight, but it expires, and an eta may be later. If the task has follow-ups, the tombstone gets its envelope in
 * between: only the row has it, and it will not be published.
 */
export async function cancelTask(
  id: string,
  {
    ledger,
    outbox,
  }: {
    readonly ledger: Pick<Ledger, 'cancel' | 'park'>;
    readonly outbox: Pick<OutboxStore, 'withdraw'>;
  },
): Promise<CancelStatus> {
  const status = await ledger.cancel(id);
  if (status === 'ok')
    await outbox.withdraw(id, async envelope => {
      if (hasFollowUps(envelope.body) || wantsReply(envelope))
        await ledger.park([{ envelope, delayMs: 0 }]);
    });
  return status;
}
