import type { RunRef } from '../../ledger/ledger.ts';

/**
 * Identifies one run of one task. `run` alone is not enough: tasks that were begun together share it. The epoch is not part
 * of it: a door may raise that.
 */
export const runKey = (ref: RunRef): string => `${ref.id} ${ref.run}`;
