import type { Sql } from 'postgres';

export declare const sql: Sql;
