import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { pay, sendReceipt } from '@errands/contracts';
import { assertSent, createTestKit } from 'outlast/testing';
import { payHandler, restockHandler } from '../src/handlers/shop.mjs';
import { outlast } from '../src/outlast.mjs';

let kit;
let rows;
beforeEach(async () => {
  rows = [];
  const tx = () => ({
    insert: () => ({ values: row => ({ returning: async () => [{ id: rows.push(row) }] }) }),
  });
  kit = await createTestKit(outlast, { tasks: [payHandler], tx });
});
afterEach(() => kit[Symbol.asyncDispose]());

test('pays once although the worker dies after it', async () => {
  const sent = await outlast.transaction(tx => outlast.send(tx, pay, { orderId: '1', cents: 1 }));
  kit.crashAt('worker.ran-not-committed');
  const { done, crashes } = await kit.drain();
  assert.deepEqual([done, crashes], [1, ['worker.ran-not-committed']]);
  assert.deepEqual(await sent.result(), { paymentId: 1 });
  assert.equal(rows.length, 1);
});

test('gives up on the supplier after three attempts', async () => {
  const { state } = await kit.perform(restockHandler, { item: 'cup' }, { attempt: 2 });
  assert.equal(state, 'retry');
});

test('sends the receipt to the other service', async () => {
  await outlast.transaction(tx => outlast.send(tx, sendReceipt, { orderId: '1' }));
  assertSent(kit, sendReceipt, { input: { orderId: '1' }, times: 1 });
  assert.equal((await kit.drain()).waiting, 1);
});
