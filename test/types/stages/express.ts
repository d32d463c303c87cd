import type { Express } from 'express';

export declare const app: Express;
