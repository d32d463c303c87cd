import { advertise, pay, price, refund, remind, restock, tick, total } from '@errands/contracts';
import { outlast } from '../outlast.mjs';
import { payments, ticks } from '../tables.mjs';

const PRICES = { teapot: 1_200, cup: 300 };

export const payHandler = outlast.handler(
  pay,
  async ({ orderId }, ctx) =>
    // The row is written once, whatever dies: by the rightful run of the first task with this key.
    await ctx.transaction(async tx => {
      const [row] = await tx.insert(payments).values({ orderId }).returning();
      return { paymentId: row.id };
    }),
);

export const priceHandler = outlast.handler(price, ({ item, count }) => PRICES[item] * count);

export const totalHandler = outlast.handler(
  total,
  prices => `${prices.reduce((a, b) => a + b, 0)} cents`,
);

export const restockHandler = outlast.handler(restock, {
  retry: { maxAttempts: 3, backoff: '100ms' },
  run: (_, ctx) => {
    if (ctx.attempt < 3) throw new Error('the supplier does not answer');
    return { attempts: ctx.attempt };
  },
});

export const remindHandler = outlast.handler(remind, () => true);

export const advertiseHandler = outlast.handler(advertise, () => undefined);

export const tickHandler = outlast.handler(tick, async (_, ctx) => {
  await ctx.transaction(async tx => {
    await tx.insert(ticks).values({ slot: ctx.schedule.slot.toISOString() });
  });
});

export const refundHandler = outlast.handler(refund, {
  migrations: { 1: ({ orderId, euros }) => ({ orderId, cents: euros * 100 }) },
  run: ({ cents }) => cents,
});
