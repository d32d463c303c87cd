import type { Knex } from 'knex';

export declare const knex: Knex;
