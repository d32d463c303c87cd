// Written by scripts/write-api.mjs from the comments in src.
import { fromPGlite } from 'outlast/pglite';
import { createOutlast } from 'outlast';
import { db } from '../stages/pglite.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromPGlite(db) });
  return [outlast];
}
