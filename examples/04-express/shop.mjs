// shop.mjs: the instance, a task and its handler
import { createOutlast } from 'outlast';
import { fromPg } from 'outlast/pg';
import { task } from 'outlast/task';
import { Pool } from 'pg';
import { z } from 'zod';

export const pool = new Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
export const outlast = createOutlast({ adapter: fromPg(pool), context: ['requestId'] });

export const sendReceipt = task('shop.send-receipt', {
  input: z.object({ orderId: z.string() }),
  admission: { rate: { limit: 1, per: '1h', burst: 1 } },
});

export const sendReceiptHandler = outlast.handler(sendReceipt, async ({ orderId }, ctx) => {
  const { requestId } = ctx.context;
  console.log(`receipt for order ${orderId}, asked for by request ${requestId}`);
});

export async function placeOrder(order) {
  const permit = await outlast.admit(sendReceipt, order); // 429 when the limit is reached
  const sent = await outlast.transaction(async tx => {
    // Your own statements go here, with the same `tx`.
    return await outlast.send(tx, sendReceipt, order, { permit });
  });
  return { task: sent.id };
}
