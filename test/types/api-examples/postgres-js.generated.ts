// Written by scripts/write-api.mjs from the comments in src.
import { fromPostgresJs } from 'outlast/postgres-js';
import { createOutlast } from 'outlast';
import { sql } from '../stages/postgres-js.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromPostgresJs(sql) });
  return [outlast];
}
