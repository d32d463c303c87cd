import { remind, restock, sendReceipt } from '@errands/contracts';
import { orders } from '../tables.mjs';

export async function sending(db, outlast) {
  const sent = await db.transaction(async tx => {
    await tx.insert(orders).values({ id: '17', cents: 1_500 });
    return await outlast.send(tx, sendReceipt, { orderId: '17' });
  });
  console.log('in a transaction:', (await sent.result()).mailId);

  let id;
  await db
    .transaction(async tx => {
      await tx.insert(orders).values({ id: '18', cents: 1 });
      ({ id } = await outlast.send(tx, sendReceipt, { orderId: '18' }));
      throw new Error('out of stock');
    })
    .catch(error => console.log('rolled back:', error.message));
  console.log('its task:', await outlast.find(sendReceipt, id).state());

  const pending = await db.transaction(tx =>
    outlast.send(tx, remind, { orderId: '17' }, { countdown: '500ms' }),
  );
  console.log('delayed:', await pending.result());

  const tried = await db.transaction(tx => outlast.send(tx, restock, { item: 'cup' }));
  console.log('retried:', await tried.result());
}
