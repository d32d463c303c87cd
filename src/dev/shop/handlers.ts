import { setTimeout as pause } from 'node:timers/promises';
import type { SqlTransaction } from '../../adapters/sql/sql-transaction.ts';
import { bury, createOutlast, type Handler, type Outlast } from '../../index.ts';
import { unchecked } from '../../task/index.ts';
import { sendReceipt, type ReceiptProgress } from './contract.ts';

/**
 * The code of the sample shop's tasks, run in the worker processes of `outlast dev`. Its instance
 * finds the database in OUTLAST_DATABASE_URL, which the supervisor sets, and reaches an embedded one
 * through the process that holds it.
 */
const outlast: Outlast = createOutlast();

/** Slow enough that a person can kill the worker in the middle. */
const STEP_MS = 1_500;
const STEPS = [
  'Checking the stock',
  'Charging the card',
  'Writing the receipt',
  'Sending the mail',
];

export const receiptHandler: Handler = outlast.handler(sendReceipt, {
  retry: { maxAttempts: 3, backoff: '2s', jitter: 'none' },
  // People like to press the button.
  maxResurrections: 20,
  checkpoint: unchecked<ReceiptProgress>(),
  run: async ({ orderId }, ctx) => {
    const order = await outlast.transaction(tx => findOrder(tx, orderId));
    if (order === null) return bury(`there is no order ${orderId}`);
    // After a crash the next run continues from the last checkpoint.
    const from = ctx.lastCheckpoint?.step ?? 0;
    const work = async (step: number): Promise<void> => {
      if (step < from) return;
      await ctx.checkpoint({ step, of: STEPS.length, label: STEPS[step] ?? '' });
      await pause(STEP_MS, undefined, { signal: ctx.signal });
    };
    await work(0);
    await work(1);
    if (order.card === 'declined') throw new Error('the card was declined');
    await work(2);
    // A rerun that gets here gets the number of the existing receipt, not a second one.
    const receipt = await ctx.transaction(tx => writeReceipt(tx, orderId, ctx));
    await work(3);
    return { receipt };
  },
});

async function findOrder(
  tx: SqlTransaction,
  orderId: string,
): Promise<{ readonly card: string } | null> {
  const [row] = await tx.query('select card from shop_order where id = $1::text::bigint', [
    orderId,
  ]);
  return row ? { card: row['card'] as string } : null;
}

async function writeReceipt(
  tx: SqlTransaction,
  orderId: string,
  run: { readonly id: string; readonly epoch: number },
): Promise<string> {
  const [row] = await tx.query(
    `insert into shop_receipt (order_id, task_id, epoch)
     values ($1::text::bigint, $2::text, $3::text::bigint) returning id::text as id`,
    [orderId, run.id, String(run.epoch)],
  );
  return row?.['id'] as string;
}
