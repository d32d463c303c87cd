import type { RequestListener } from 'node:http';

export declare const app: { get(path: string, handler: RequestListener): void };
