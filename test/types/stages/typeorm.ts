import type { DataSource } from 'typeorm';

export declare const source: DataSource;
