import type { LeaseTarget } from '../../context/openers.ts';
import type { Beat } from '../../worker/lease/heartbeat.ts';

/** Indexes in the memory that the main thread and the heartbeat thread share; milliseconds of the monotonic clock. */
export const HEARTBEAT_SLOTS: { readonly lastBeatAt: 0; readonly tickedAt: 1 } = {
  lastBeatAt: 0,
  tickedAt: 1,
};
export const HEART_BYTES = 16;

export interface HeartbeatThreadData {
  readonly target: LeaseTarget;
  readonly beatMs: number;
  readonly leaseMs: number;
  readonly maxBlockMs: number;
  /** The largest heap of the main thread. */
  readonly heapBytes: number;
  /** Where a supervisor reads why the process ended; null: there is none. */
  readonly lastWordsFd: number | null;
  readonly shared: SharedArrayBuffer;
}

/** Messages of the thread. `ready`: it is connected and waits for the name of an incarnation. */
export type FromHeartbeat =
  | { readonly kind: 'ready' }
  | { readonly kind: 'beat'; readonly beat: Beat }
  | { readonly kind: 'failed'; readonly error: string };
