import type { PrismaClient } from '../../support/prisma/postgres/generated/client.ts';

export declare const prisma: PrismaClient;
