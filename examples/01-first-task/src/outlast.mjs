// src/outlast.mjs: one instance on your own pool
import { createOutlast } from 'outlast';
import { fromPg } from 'outlast/pg';
import { Pool } from 'pg';
import config from '../outlast.config.mjs';

export const pool = new Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
export const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
