import type { Pool } from 'mariadb';

export declare const pool: Pool;
