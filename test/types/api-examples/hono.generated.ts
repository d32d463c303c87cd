// Written by scripts/write-api.mjs from the comments in src.
import { outlastContext, outlastErrors } from 'outlast/hono';
import { app } from '../stages/hono.ts';
import { outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  app.use(outlastContext(outlast)); // before the routes
  return [];
}

export async function example2(): Promise<unknown> {
  app.onError(outlastErrors());
  return [];
}
