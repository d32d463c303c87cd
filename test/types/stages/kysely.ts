import type { Kysely } from 'kysely';

export declare const db: Kysely<{ orders: { id: string } }>;
