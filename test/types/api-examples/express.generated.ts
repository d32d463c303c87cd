// Written by scripts/write-api.mjs from the comments in src.
import { outlastErrors } from 'outlast/express';
import { app } from '../stages/express.ts';

export async function example1(): Promise<unknown> {
  app.use(outlastErrors()); // after the routes
  return [];
}
