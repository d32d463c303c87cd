import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { createOutlast } from 'outlast';
import { fromDrizzle } from 'outlast/drizzle';
import { Pool } from 'pg';
import config from '../outlast.config.mjs';

export const pool = new Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
export const db = drizzle(pool);
export const outlast = createOutlast({
  ...config,
  adapter: fromDrizzle(db, { dialect: 'postgres', sql }),
});
