import { pay } from '@errands/contracts';
import { asc, eq } from 'drizzle-orm';
import { task } from 'outlast';
import { z } from 'zod';
import { payments, ticks } from '../tables.mjs';

export async function effects(db, outlast) {
  await payOnce(db, outlast);
  await upgrade(db, outlast);
  let slots = [];
  while (slots.length < 2) slots = await db.select().from(ticks).orderBy(asc(ticks.slot)).limit(2);
  console.log('by the clock:', Date.parse(slots[1].slot) > Date.parse(slots[0].slot));
}

/** The button was pressed three times. */
async function payOnce(db, outlast) {
  const orderId = `order-${Date.now()}`;
  const sent = await db.transaction(tx =>
    outlast.sendMany(
      tx,
      [1, 2, 3].map(() => pay.with({ orderId, cents: 1_500 })),
    ),
  );
  const answers = await Promise.all(sent.map(pressed => pressed.result()));
  const ids = new Set(answers.map(({ paymentId }) => paymentId));
  const rows = await db.select().from(payments).where(eq(payments.orderId, orderId));
  console.log('paid:', answers.length, 'answers of', ids.size, 'payment, rows:', rows.length);
}

/** What a process of the last release still sends. */
async function upgrade(db, outlast) {
  const refundV1 = task('shop.refund', {
    queue: 'errands',
    input: z.object({ orderId: z.string(), euros: z.number() }),
    result: z.number(),
  });
  const sent = await db.transaction(tx => outlast.send(tx, refundV1, { orderId: '17', euros: 15 }));
  console.log('upgraded:', await sent.result(), 'cents');
}
