// Written by scripts/write-api.mjs from the comments in src.
import { outlastContext, outlastErrors } from 'outlast/express';
import { app } from '../stages/express.ts';
import { outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  app.use(outlastContext(outlast)); // before the routes
  return [];
}

export async function example2(): Promise<unknown> {
  app.use(outlastErrors()); // after the routes
  return [];
}
