import type { CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';
import { sweepCheckpoints } from './sweep-checkpoints.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';

const EVERY_MS = 600_000;

export interface CleanCheckpointsParts {
  readonly store: CheckpointStore;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly runtime: Runtime;
}

/** Deletes large checkpoints that no task needs any more, beside the resurrector. */
export async function cleanCheckpoints(
  { store, reads, runtime }: CleanCheckpointsParts,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const count = await sweepCheckpoints(store, reads);
      if (count > 0) runtime.log.info({ count }, 'checkpoints of tasks that are over are deleted');
    } catch (error) {
      runtime.log.warn({ error }, 'old checkpoints cannot be deleted now');
    }
    await sleep(runtime.clock, EVERY_MS, signal);
  }
}
