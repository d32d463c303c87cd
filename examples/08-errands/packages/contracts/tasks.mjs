// What travels between the services. No service's code is needed to send a task to it.
import { task } from 'outlast/task';
import { z } from 'zod';

const queue = 'errands';
const order = z.object({ orderId: z.string() });

// Run by services/mail.
export const sendReceipt = task('mail.send-receipt', {
  queue,
  input: order,
  result: z.object({ mailId: z.string() }),
  timeout: '30s',
});
export const announce = task('mail.announce', { queue, input: z.string(), result: z.string() });

// Run by services/shop.
export const pay = task('shop.pay', {
  queue,
  input: z.object({ orderId: z.string(), cents: z.number().int() }),
  result: z.object({ paymentId: z.number() }),
  idempotent: { key: ({ orderId }) => orderId, ttl: '1h' },
});
export const price = task('shop.price', {
  queue,
  params: ['item', 'count'],
  input: z.object({ item: z.string(), count: z.number().default(1) }),
  result: z.number(),
});
export const total = task('shop.total', {
  queue,
  input: z.array(z.number()),
  result: z.string(),
});
export const restock = task('shop.restock', {
  queue,
  input: z.object({ item: z.string() }),
  result: z.object({ attempts: z.number() }),
});
export const remind = task('shop.remind', { queue, input: order, result: z.boolean() });
export const advertise = task('shop.advertise', {
  queue,
  input: z.object({ campaign: z.string() }),
  admission: { key: ({ campaign }) => campaign, rate: { limit: 2, per: '1h', burst: 2 } },
});
export const tick = task('shop.tick', { queue });
// Version 1 had euros. Tasks of that version may still wait when a worker of this one starts.
export const refund = task('shop.refund', {
  queue,
  version: 2,
  input: z.object({ orderId: z.string(), cents: z.number().int() }),
  result: z.number(),
});
