// Written by scripts/write-api.mjs from the comments in src.
import { fromPrisma } from 'outlast/prisma';
import { createOutlast } from 'outlast';
import { prisma } from '../stages/prisma.ts';

export async function example1(): Promise<unknown> {
  const outlast = createOutlast({ adapter: fromPrisma(prisma, { dialect: 'postgres' }) });
  return [outlast];
}
