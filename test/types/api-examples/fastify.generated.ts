// Written by scripts/write-api.mjs from the comments in src.
import { outlastPlugin } from 'outlast/fastify';
import { startResurrector, startWorker } from 'outlast';
import { app } from '../stages/fastify.ts';
import { chargeHandler, outlast } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  await app.register(outlastPlugin, {
    outlast,
    services: () => [startWorker(outlast, { tasks: [chargeHandler] }), startResurrector(outlast)],
  });
  return [];
}
