/**
 * Rows whose task was published and is not known to be over: end-to-end durability. A row is
 *
 *   claimed ──markSent──► sent ──take, later──► sent, to be looked at again
 *                          ├────received──────► (deleted): the task is over
 *                          ├────park──────────► sent: the task is dead and holds back those behind it
 *                          └────sendAgain─────► pending: nobody knows the task any more
 *
 * Whoever looks at a row has nothing of it: what two lookers say about one row is said twice. Only that it is lost is
 * said of one publishing. A row that is not `sent` any more is left alone, and every step but `take` returns how many
 * rows it touched.
 */
export interface ReceiptStore {
  /** Published rows that still carry the token stay, to be looked at after `delayMs`. */
  markSent(token: string, rows: readonly string[], delayMs: number): Promise<number>;
  /** Up to `limit` rows that are to be looked at now; nobody else is given them for `leaseMs`. */
  take(limit: number, leaseMs: number): Promise<readonly SentRow[]>;
  received(rows: readonly string[]): Promise<number>;
  later(rows: readonly string[], delayMs: number): Promise<number>;
  park(rows: readonly string[], delayMs: number): Promise<number>;
  /** Rows that were claimed so often when they were looked at, and not since. */
  sendAgain(rows: readonly string[], claims: number): Promise<number>;
}

export interface SentRow {
  readonly row: string;
  /** The task's. */
  readonly id: string;
  /** How often the row was claimed, at least once per publishing. */
  readonly claims: number;
  /** Since it was published last. */
  readonly ageMs: number;
  readonly isOrdered: boolean;
  /** True: when its task is dead, the row holds back those behind it. */
  readonly parksKey: boolean;
  /** True: it does so now. */
  readonly isParked: boolean;
}

/** The last error of a row that parks its key: how statements know it again, and what people see. */
export const PARKED = 'the task is dead and holds back those behind it';

/** As options are encoded; within a value of the user's the quotes would be escaped. */
const MARK = '"receipt":true';

/** True: the row is kept until its task is over. Options need not be read for this. */
export function wantsReceipt(options: Uint8Array): boolean {
  if (options.length < MARK.length) return false;
  return Buffer.from(options.buffer, options.byteOffset, options.length).includes(MARK);
}
