// Written by scripts/write-api.mjs from the comments in src.
import { fromMikroOrm } from 'outlast/mikro-orm';
import { createOutlast } from 'outlast';
import { orm } from '../stages/mikro-orm.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromMikroOrm(orm, { dialect: 'postgres' }) });
  return [outlast];
}
