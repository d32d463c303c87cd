import type { FastifyInstance } from 'fastify';

export declare const app: FastifyInstance;
