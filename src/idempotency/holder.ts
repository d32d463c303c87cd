import type { LedgerReads } from '../ledger/ledger-reads.ts';
import type { KeyHolder } from './idempotency-store.ts';

/** A queue created a moment ago may still be missing from a search for a task in all queues. */
const SURELY_KNOWN_MS = 10_000;

/**
 * Whether the holder of a key can still run. A holder that the ledger does not know has ended and was forgotten, unless it
 * took the key just now.
 */
export async function isAlive(
  { taskId, heldMs }: KeyHolder,
  reads: Pick<LedgerReads, 'inspect'>,
): Promise<boolean> {
  const found = await reads.inspect(taskId);
  if (found === null) return heldMs < SURELY_KNOWN_MS;
  return found.state === 'waiting' || found.state === 'running';
}
