import type { DatabaseTarget } from '../config/database-url.ts';

/** Places in the memory that the main thread and the beat thread share; milliseconds of the monotonic clock. */
export const HEART_SLOTS: { readonly lastBeatAt: 0; readonly tickedAt: 1 } = {
  lastBeatAt: 0,
  tickedAt: 1,
};
export const HEART_BYTES = 16;

export interface HeartThreadData {
  readonly target: DatabaseTarget;
  readonly worker: string;
  readonly beatMs: number;
  readonly maxBlockMs: number;
  readonly shared: SharedArrayBuffer;
}
