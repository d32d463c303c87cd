// Written by scripts/write-api.mjs from the comments in src.
import { fromPg } from 'outlast/pg';
import { createOutlast } from 'outlast';
import { pool } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromPg(pool) });
  return [outlast];
}
