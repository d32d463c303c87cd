import type { Envelope } from '../task/envelope.ts';
import type { ReceiptStore } from './receipt-store.ts';

/**
 * The relay's side of the outbox. A row is
 *
 *   pending ──claim──► claimed ──settlePublished──► (deleted)
 *      ▲                 │ ├─────settleFailed─────► pending later, or moved to the dead letters
 *      └──release, lapse─┘ └────receipts.markSent──► sent, until its task is over
 *
 * Every settling step names the claim token and touches only rows that still carry it; the count it
 * returns says how many those were.
 */
export interface OutboxStore {
  /** Proves that a relay lives. Rows claimed by a relay whose lease lapsed may be claimed by others at once. */
  beat(relay: string, leaseMs: number): Promise<void>;
  leave(relay: string): Promise<void>;
  claim(request: ClaimRequest): Promise<readonly OutboxRow[]>;
  /** Moves the end of a claim; returns how many rows still carry the token. */
  renewClaim(token: string, staleMs: number): Promise<number>;
  /** Deletes published rows that still carry the token. */
  settlePublished(token: string, rows: readonly string[]): Promise<number>;
  settleFailed(token: string, failures: readonly PublishFailure[]): Promise<number>;
  /** Gives back rows that still carry the token, due after `delayMs`; costs no retry. */
  defer(token: string, rows: readonly string[], delayMs: number): Promise<number>;
  /** Gives back all that still carries the token, due at once; costs no retry. */
  release(token: string): Promise<number>;
  /** Its task was cancelled: a row that nobody has claimed goes, after `tell` has ended well. Whether there was one. */
  withdraw(taskId: string, tell: (envelope: Envelope) => Promise<void>): Promise<boolean>;
  /** A dead row becomes pending again, once: the version names the death that is undone. Its history says so. */
  reviveDeadLetter(id: string, version: number): Promise<ReviveStatus>;
  /** Deletes up to `limit` dead letters that match, oldest first; a dry run deletes none and counts all. */
  purgeDeadLetters(request: PurgeRequest): Promise<PurgeReply>;
  /**
   * Where outbox and ledger are one database, a single statement moves due rows: no token, no
   * re-send. Null where they are not.
   */
  readonly move: ((limit: number) => Promise<MoveReply>) | null;
  /** Rows that are kept until their task is over. */
  readonly receipts: ReceiptStore;
  /** Forgets up to `limit` enqueue keys whose window is over. Returns how many. */
  prune(limit: number): Promise<number>;
  /** Milliseconds until the next row is due; null when the outbox is empty. */
  nextDueMs(): Promise<number | null>;
  /** Calls `hint` when rows may have been committed. Returns the undo. */
  onReady(hint: () => void): () => void;
}

export interface ClaimRequest {
  readonly relay: string;
  /** Random; the proof of ownership in every later step. */
  readonly token: string;
  readonly limit: number;
  readonly staleMs: number;
}

export interface OutboxRow {
  /** Position in the table; text, because it may pass 2^53. */
  readonly row: string;
  readonly envelope: Envelope;
  /** Failed publish attempts so far. */
  readonly retries: number;
  /** True the first time anybody claims the row: what is seen then is committed. */
  readonly isFirstClaim: boolean;
}

export interface PublishFailure {
  readonly row: string;
  readonly error: string;
  /** Null: no retry is left, the row becomes a dead letter. */
  readonly delayMs: number | null;
}

/** `expired`: it could not run any more, so it stays where it is. */
export type ReviveStatus = 'ok' | 'absent' | 'conflict' | 'expired';

/** At least one age is given, and all that is given must hold. A glob knows `*` and `?`; null matches every task. */
export interface PurgeRequest {
  readonly olderThanDeadMs: number | null;
  readonly olderThanCreatedMs: number | null;
  readonly taskName: string | null;
  readonly limit: number;
  readonly isDryRun: boolean;
}

/** How many letters of each task were deleted, or would be. */
export interface PurgeReply {
  readonly counts: readonly { readonly name: string; readonly count: number }[];
}

export interface MovedRow {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /**
   * `copy`: the ledger had this task already. `conflict`: it has this id with other bytes; the newcomer is dead. `limited`:
   * it must pass a rate first, so it is still in the outbox, to be claimed.
   */
  readonly answer: 'moved' | 'copy' | 'conflict' | 'limited';
}

export interface MoveReply {
  readonly rows: readonly MovedRow[];
}
