import { hasMark, MARKS } from '../task/marks.ts';

/**
 * Rows whose task was published and is not known to be over: end-to-end durability. A row is
 *
 *   claimed ──markSent──► sent ──take, later──► sent, to be checked again
 *                          ├────received──────► (deleted): the task is over
 *                          ├────park──────────► sent: the task is dead and holds back those behind it
 *                          └────sendAgain─────► pending: no store knows the task any more
 *
 * A check does not lock a row: if two relays report on one row, the report is repeated. Only `sendAgain` is bound to one
 * publish. A row that is no longer `sent` is left alone, and every step but `take` returns how many rows it touched.
 */
export interface ReceiptStore {
  /** Published rows that still carry the token stay, to be checked after `delayMs`. */
  markSent(token: string, rows: readonly string[], delayMs: number): Promise<number>;
  /** Up to `limit` rows that are due for a check; no other relay gets them for `leaseMs`. */
  take(limit: number, leaseMs: number): Promise<readonly SentRow[]>;
  received(rows: readonly string[]): Promise<number>;
  later(rows: readonly string[], delayMs: number): Promise<number>;
  park(rows: readonly string[], delayMs: number): Promise<number>;
  /** Rows with this number of claims when they were checked, and not claimed since. */
  sendAgain(rows: readonly string[], claims: number): Promise<number>;
}

export interface SentRow {
  readonly row: string;
  /** The task's. */
  readonly id: string;
  /** How often the row was claimed, at least once per publish. */
  readonly claims: number;
  /** Since it was last published. */
  readonly ageMs: number;
  readonly isOrdered: boolean;
  /** True: when its task is dead, the row holds back the rows behind it. */
  readonly parksKey: boolean;
  /** True: it does so now. */
  readonly isParked: boolean;
}

/** The last error of a row that parks its key: statements recognize it by this, and operators see it. */
export const PARKED = 'the task is dead and holds back those behind it';

/** True: the row is kept until its task is over. This does not parse the options. */
export function wantsReceipt(options: Uint8Array): boolean {
  return hasMark(options, MARKS.receipt);
}
