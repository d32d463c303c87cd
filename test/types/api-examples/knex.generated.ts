// Written by scripts/write-api.mjs from the comments in src.
import { fromKnex } from 'outlast/knex';
import { createOutlast } from 'outlast';
import { knex } from '../stages/knex.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromKnex(knex, { dialect: 'postgres' }) });
  return [outlast];
}
