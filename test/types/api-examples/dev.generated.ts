// Written by scripts/write-api.mjs from the comments in src.
import { startDev } from 'outlast/dev';
import { shutdownSignal } from 'outlast';

export async function example1(): Promise<unknown> {
  const dev = await startDev({ signal: shutdownSignal() });
  console.log(dev.address);
  await dev.finished;
  return [dev];
}
