// Written by scripts/write-api.mjs from the comments in src.
import { fromSequelize } from 'outlast/sequelize';
import { createOutlast } from 'outlast';
import { sequelize } from '../stages/sequelize.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromSequelize(sequelize) });
  return [outlast];
}
