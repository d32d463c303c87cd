// src/tasks.mjs: contracts, imported by the web application and by the workers
import { task } from 'outlast/task';
import { z } from 'zod';

export const sendReceipt = task('shop.send-receipt', {
  input: z.object({ orderId: z.string() }),
  result: z.object({ mailId: z.string() }),
  timeout: '30s',
});
