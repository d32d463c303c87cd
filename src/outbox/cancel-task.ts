import type { CancelStatus, Ledger } from '../ledger/ledger.ts';
import { hasFollowUps } from '../task/signature.ts';
import { wantsReply } from '../wire/reply.ts';
import type { OutboxStore } from './outbox-store.ts';

/**
 * First the tombstone, then the row of a task that waits to be published: the tombstone turns away what is on its way by
 * then, and has an end; an eta may be later. Between the two the tombstone meets the task, where something follows it:
 * only the row says what, and nobody will publish it.
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
