import type { Envelope } from '../../task/envelope.ts';

/** What a row has to do with its order. */
export interface RowOrder {
  /** Rows with the same key are published in commit order, one at a time; null: whenever. */
  readonly orderingKey: string | null;
  /** True: dead, it holds back those behind it. */
  readonly parksKey: boolean;
}

/** One committed task on its way to the broker. */
export interface OutboxRecord extends RowOrder {
  /** Its place; a letter that is revived at the end of the queue gets another. */
  row: number;
  readonly envelope: Envelope;
  readonly createdMs: number;
  state: 'pending' | 'claimed';
  availableMs: number;
  token: string;
  relay: string;
  claimedUntilMs: number;
  claims: number;
  retries: number;
  errors: { readonly atMs: number; readonly message: string }[];
  /** How often it became a dead letter: one revival undoes one death. */
  version: number;
}

/** The comparisons that decide about a row, by name; the simulator's mutants replace single ones. */
export interface OutboxGuards {
  isDue(record: OutboxRecord, nowMs: number): boolean;
  /** Is the claim over? `leaseUntilMs` is undefined for a relay that is not known: then it does not live. */
  isClaimOver(record: OutboxRecord, leaseUntilMs: number | undefined, nowMs: number): boolean;
  /** Does the row still belong to whoever holds this token? */
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
