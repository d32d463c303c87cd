// Written by scripts/write-api.mjs from the comments in src.
import { createMetrics } from 'outlast/metrics';
import { app } from '../stages/metrics.ts';
import { outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  const metrics = await createMetrics(outlast);
  app.get('/metrics', metrics.handler);
  return [metrics];
}
