import type { RunRef } from '../ledger/ledger.ts';

/** One text for one run of one task: tasks that were begun together share their `run`. */
export const runKey = (ref: RunRef): string => `${ref.id} ${ref.epoch} ${ref.run}`;
