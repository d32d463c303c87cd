import type { Envelope } from '../task/envelope.ts';
import type { ReceiptStore } from './receipt-store.ts';

/**
 * Tasks that were committed and not yet published. A row is
 *
 *   pending ──claim──► claimed ──settlePublished──► (deleted)
 *      ▲                 │ ├─────settleFailed─────► pending later, or moved to the dead letters
 *      └──release, lapse─┘ └────receipts.markSent──► sent, until its task is over
 *
 * Every settling step names the claim token and touches only rows that still carry it; it returns how many there were.
 */
export interface OutboxStore extends RelayOutbox, OperatorOutbox {
  /** Rows that are kept until their task is over. */
  readonly receipts: ReceiptStore;
  /** Drops up to `limit` enqueue keys whose window is over. Returns how many. */
  prune(limit: number): Promise<number>;
}

/** What a relay needs: to take rows, and to settle them. */
export interface RelayOutbox {
  /** Proves that a relay is alive. Rows claimed by a relay whose lease lapsed may be claimed by others at once. */
  beat(relay: string, leaseMs: number): Promise<void>;
  leave(relay: string): Promise<void>;
  claim(request: ClaimRequest): Promise<readonly OutboxRow[]>;
  /** Extends a claim; returns how many rows still carry the token. */
  renewClaim(token: string, staleMs: number): Promise<number>;
  /** Deletes published rows that still carry the token. */
  settlePublished(token: string, rows: readonly string[]): Promise<number>;
  settleFailed(token: string, failures: readonly PublishFailure[]): Promise<number>;
  /** Gives back rows that still carry the token, due after `delayMs`, or each after its own; costs no retry. */
  defer(
    token: string,
    rows: readonly string[],
    delayMs: number | readonly number[],
  ): Promise<number>;
  /** Gives back all rows that still carry the token, due at once; costs no retry. */
  release(token: string): Promise<number>;
  /** If outbox and ledger are one database, a single statement moves due rows: no token, no re-send. Null otherwise. */
  readonly move: ((limit: number) => Promise<MoveReply>) | null;
  /** Milliseconds until the next row is due; null when the outbox is empty. */
  nextDueMs(): Promise<number | null>;
  /** Calls `hint` when rows may have been committed. Returns the undo. */
  onReady(hint: () => void): () => void;
}

/** What operators decide about a row. */
export interface OperatorOutbox {
  /** Its task was cancelled: an unclaimed row is deleted, after `notify` has succeeded. Returns whether there was one. */
  withdraw(taskId: string, notify: (envelope: Envelope) => Promise<void>): Promise<boolean>;
  /** A dead row becomes pending again, once: the version names the death to undo. Its history records it. */
  reviveDeadLetter(id: string, version: number): Promise<ReviveStatus>;
  /** Deletes up to `limit` matching dead letters, oldest first; a dry run deletes none and counts all. */
  purgeDeadLetters(request: PurgeRequest): Promise<PurgeReply>;
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
  /** True on the first claim of the row: a row that is seen then is committed. */
  readonly isFirstClaim: boolean;
  /** How long it had been due when it was claimed, whatever was tried before; by the store's clock. */
  readonly dueMs: number;
}

export interface PublishFailure {
  readonly row: string;
  readonly error: string;
  /** Null: no retry is left, the row becomes a dead letter. */
  readonly delayMs: number | null;
}

/** `expired`: it could no longer run, so it stays where it is. */
export type ReviveStatus = 'ok' | 'absent' | 'conflict' | 'expired';

/** At least one age is given, and all given criteria must match. A glob supports `*` and `?`; null matches every task. */
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
   * `copy`: the ledger had this task already. `conflict`: it has this id with other bytes; the new message is dead.
   * `limited`: it must pass a rate first, so it is still in the outbox, to be claimed.
   */
  readonly answer: 'moved' | 'copy' | 'conflict' | 'limited';
}

export interface MoveReply {
  readonly rows: readonly MovedRow[];
}
