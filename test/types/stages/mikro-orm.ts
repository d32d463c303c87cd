import type { MikroORM } from '@mikro-orm/postgresql';

export declare const orm: MikroORM;
