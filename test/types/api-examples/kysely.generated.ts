// Written by scripts/write-api.mjs from the comments in src.
import { fromKysely } from 'outlast/kysely';
import { createOutlast } from 'outlast';
import { db } from '../stages/kysely.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromKysely(db, { dialect: 'postgres' }) });
  return [outlast];
}
