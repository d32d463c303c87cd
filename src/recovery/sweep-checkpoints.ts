import type { CheckpointKey, CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { LedgerReads } from '../ledger/ledger-reads.ts';

/** A checkpoint that was just written may not be referred to yet. */
const AGE_MS = 3_600_000;
const CHUNK = 100;

/** Deletes large checkpoints of tasks that are over or unknown. Dead ones keep theirs: they may be revived. Returns how many. */
export async function sweepCheckpoints(
  store: CheckpointStore,
  ledger: Pick<LedgerReads, 'inspect'>,
  ageMs: number = AGE_MS,
): Promise<number> {
  let count = 0;
  let after: CheckpointKey | null = null;
  for (;;) {
    const keys: readonly CheckpointKey[] = await store.list(ageMs, CHUNK, after);
    for (const key of keys) {
      const state = (await ledger.inspect(key.taskId))?.state;
      if (state === 'waiting' || state === 'running' || state === 'dead') continue;
      await store.remove(key);
      count += 1;
    }
    if (keys.length < CHUNK) return count;
    after = keys.at(-1) ?? null;
  }
}
