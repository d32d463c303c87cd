// Written by scripts/write-api.mjs from the comments in src.
import { assertSent, createTestKit, fakeContext } from 'outlast/testing';
import { charge, chargeHandler, charging, kit, outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  await using kit = await createTestKit(outlast, { tasks: [chargeHandler] });
  return [kit];
}

export async function example2(): Promise<unknown> {
  const ctx = await fakeContext(charge, { orderId: '1', cents: 5 }, { attempt: 2 });
  await charging(ctx.input, ctx); // the function of a handler
  console.log(ctx.sent.length);
  return [ctx];
}

export async function example3(): Promise<unknown> {
  assertSent(kit, charge, { input: { orderId: '1' }, times: 1 });
  return [];
}
