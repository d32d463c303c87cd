// Written by scripts/write-api.mjs from the comments in src.
import { createAdmin } from 'outlast/admin';
import { outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  const { queueDepth } = await createAdmin(outlast).stats();
  return [queueDepth];
}
