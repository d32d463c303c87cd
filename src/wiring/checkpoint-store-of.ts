import { FolderCheckpointStore } from '../adapters/folder/folder-checkpoint-store.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { Stores } from './stores.ts';

/** Where large checkpoints go: the folder of the configuration, or the database. */
export async function checkpointStoreOf(
  { worker }: Pick<ResolvedConfig, 'worker'>,
  stores: Pick<Stores, 'checkpoints'>,
): Promise<CheckpointStore> {
  if (worker.checkpointFolder === null) return stores.checkpoints;
  const folder = new FolderCheckpointStore(worker.checkpointFolder);
  await folder.check();
  return folder;
}
