// src/tasks.ts: contracts
import { task } from 'outlast/task';
import { z } from 'zod';

export const sendReceipt = task('shop.send-receipt', {
  input: z.object({ orderId: z.string() }),
  admission: { rate: { limit: 1, per: '1h', burst: 1 } },
});
