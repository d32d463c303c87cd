// Written by scripts/write-api.mjs from the comments in src.
import { assertSent, createTestKit } from 'outlast/testing';
import { charge, chargeHandler, kit, outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  await using kit = await createTestKit(outlast, { tasks: [chargeHandler] });
  return [kit];
}

export async function example2(): Promise<unknown> {
  assertSent(kit, charge, { input: { orderId: '1' }, times: 1 });
  return [];
}
