// Written by scripts/write-api.mjs from the comments in src.
import { fromTypeOrm } from 'outlast/typeorm';
import { createOutlast } from 'outlast';
import { source } from '../stages/typeorm.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromTypeOrm(source) });
  return [outlast];
}
