// Written by scripts/write-api.mjs from the comments in src.
import { outlastErrors } from 'outlast/hono';
import { app } from '../stages/hono.ts';

export async function example1(): Promise<unknown> {
  app.use(outlastErrors()); // before the routes
  return [];
}
