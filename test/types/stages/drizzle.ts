import { sql as drizzleSql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';

export const sql = drizzleSql;
export declare const db: NodePgDatabase;
