// src/handlers/send-receipt.mjs: code that runs; only workers load it
import { mail } from '../mail.mjs';
import { outlast } from '../outlast.mjs';
import { sendReceipt } from '../tasks.mjs';

export const sendReceiptHandler = outlast.handler(sendReceipt, async ({ orderId }, ctx) => {
  // The id is the same in every run of the task: the mail service can tell a repeat by it.
  const mailId = await mail(orderId, { idempotencyKey: ctx.id, signal: ctx.signal });
  return { mailId };
});
