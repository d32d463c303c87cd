import type { RunRef } from '../ledger/ledger.ts';

/**
 * One text for one run of one task. `run` alone is not enough, tasks that were begun together share it; the epoch is no part
 * of it, a door may lift that.
 */
export const runKey = (ref: RunRef): string => `${ref.id} ${ref.run}`;
