import type { ErrorMiddleware } from 'outlast/express';

export declare const app: { use(middleware: ErrorMiddleware): void };
