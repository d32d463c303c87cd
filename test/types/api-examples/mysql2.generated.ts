// Written by scripts/write-api.mjs from the comments in src.
import { fromMysql2 } from 'outlast/mysql2';
import { createOutlast } from 'outlast';
import { pool } from '../stages/mysql2.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ outbox: 'crm', adapter: fromMysql2(pool) });
  return [outlast];
}
