import { readHolder } from '../adapters/pglite/folder-lock.ts';
import { outlastError } from '../errors/error.ts';
import type { Internals } from './internals.ts';

/** Makes sure that threads and processes of this one can reach an embedded database: one process alone holds it. */
export async function shareEmbedded(internals: Internals): Promise<void> {
  const { database } = internals.config;
  if (database.kind !== 'pglite' || (await isServed(database.folder))) return;
  await internals.stores({ embedded: 'own' });
  if (await isServed(database.folder)) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message: `this process has opened ${database.folder} for itself alone, so handlers in threads and processes cannot reach it`,
    hint: 'Start the worker before anything is sent, use `outlast dev`, or run these handlers inline.',
    fields: { option: 'mode' },
  });
}

async function isServed(folder: string): Promise<boolean> {
  return ((await readHolder(folder))?.endpoint ?? null) !== null;
}
