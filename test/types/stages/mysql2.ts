import type { Pool } from 'mysql2/promise';

export declare const pool: Pool;
