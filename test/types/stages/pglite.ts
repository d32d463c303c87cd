import type { PGlite } from '@electric-sql/pglite';

export declare const db: PGlite;
