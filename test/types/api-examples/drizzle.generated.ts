// Written by scripts/write-api.mjs from the comments in src.
import { fromDrizzle } from 'outlast/drizzle';
import { createOutlast } from 'outlast';
import { db, sql } from '../stages/drizzle.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromDrizzle(db, { dialect: 'postgres', sql }) });
  return [outlast];
}
