import type { HistoryEntry } from '../../ledger/dead-letter.ts';
import type { Envelope } from '../../task/envelope.ts';

/** The columns of a row beside its envelope. */
export interface RowExtras {
  readonly orderingKey: string | null;
  readonly parksKey: boolean;
  /** JSON texts shown to operators instead of the arguments. */
  readonly redacted: { readonly args: string; readonly kwargs: string } | null;
  /** Its format. */
  readonly rowVersion: number;
}

/** One committed task on its way to the broker. */
export interface OutboxRecord extends RowExtras {
  readonly row: number;
  readonly envelope: Envelope;
  readonly createdMs: number;
  state: 'pending' | 'claimed' | 'sent';
  /** When it was last published. */
  sentMs: number;
  availableMs: number;
  token: string;
  relay: string;
  claimedUntilMs: number;
  claims: number;
  retries: number;
  history: HistoryEntry[];
  lastError: string | null;
  deadMs: number;
  /** How often it became a dead letter: one revival undoes one death. */
  version: number;
}

/** When a row was due for the first time: a deferral or a backoff changes nothing about it. */
export const firstDueMs = ({ createdMs, envelope }: OutboxRecord): number =>
  Math.max(createdMs, envelope.etaMs ?? 0);

/** The comparisons that decide about a row, by name; the simulator's mutants replace single ones. */
export interface OutboxGuards {
  isDue(record: OutboxRecord, nowMs: number): boolean;
  /** Is the claim over? `leaseUntilMs` is undefined for an unknown relay, which counts as dead. */
  isClaimOver(record: OutboxRecord, leaseUntilMs: number | undefined, nowMs: number): boolean;
  /** Is the row still claimed under this token? */
  isOwned(record: OutboxRecord, token: string): boolean;
  mayRevive(record: OutboxRecord, version: number): boolean;
}

export const OUTBOX_GUARDS: OutboxGuards = Object.freeze({
  isDue: (record, nowMs) => record.state === 'pending' && record.availableMs <= nowMs,
  isClaimOver: (record, leaseUntilMs, nowMs) =>
    record.state === 'claimed' &&
    (record.claimedUntilMs < nowMs || leaseUntilMs === undefined || leaseUntilMs < nowMs),
  isOwned: (record, token) => record.state === 'claimed' && record.token === token,
  mayRevive: (record, version) => record.version === version,
} satisfies OutboxGuards);
