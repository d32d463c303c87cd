import type { DatabaseTarget } from '../config/database-url.ts';
import type { LedgerParts } from './messaging.ts';
import type { Beat } from '../worker/heart.ts';

/** Places in the memory that the main thread and the beat thread share; milliseconds of the monotonic clock. */
export const HEART_SLOTS: { readonly lastBeatAt: 0; readonly tickedAt: 1 } = {
  lastBeatAt: 0,
  tickedAt: 1,
};
export const HEART_BYTES = 16;

/** Where the lease is kept. */
export type HeartTarget =
  | { readonly kind: 'database'; readonly database: DatabaseTarget }
  | { readonly kind: 'redis'; readonly ledger: LedgerParts };

export interface HeartThreadData {
  readonly target: HeartTarget;
  readonly beatMs: number;
  readonly maxBlockMs: number;
  readonly shared: SharedArrayBuffer;
}

/** What the thread says. `ready`: it is connected and waits for the name of an incarnation. */
export type FromHeart =
  | { readonly kind: 'ready' }
  | { readonly kind: 'beat'; readonly beat: Beat }
  | { readonly kind: 'failed'; readonly error: string };
