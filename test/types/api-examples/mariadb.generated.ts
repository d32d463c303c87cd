// Written by scripts/write-api.mjs from the comments in src.
import { fromMariadb } from 'outlast/mariadb';
import { createOutlast } from 'outlast';
import { pool } from '../stages/mariadb.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ outbox: 'crm', adapter: fromMariadb(pool) });
  return [outlast];
}
