import type { Rate } from '../task/admission-rule.ts';

/**
 * Which tasks may come in, and how many run at once, by key. It lives in the ledger's store, and uses only that store's
 * clock. A rate is a state that recovers with time: none of it can leak. A reservation belongs to a run, and counts as long
 * as it exists; `sweep` frees those of runs that the ledger no longer runs.
 */
export interface AdmissionStore {
  /** Takes from several rates, each independently; the keys differ. A rate that refuses takes nothing. */
  take(asks: readonly RateAsk[]): Promise<readonly RateGrant[]>;
  /**
   * Gives back what was taken and not used: only if no other call has taken from the key since, because time would then give
   * it back a second time. True: it was given back.
   */
  refund(reservations: readonly RateRefund[]): Promise<readonly boolean[]>;
  /** Remembers a permit for this long. */
  hold(token: string, holdMs: number): Promise<void>;
  /** Whether each permit is still valid. The first task that names one owns it; the same task may ask again. */
  confirm(uses: readonly PermitUse[]): Promise<readonly boolean[]>;
  /** Reservations under one key, in the order of the runs; a run that has one keeps it. */
  reserve(ask: ReserveRequest): Promise<ReserveReply>;
  /**
   * A task that got no reservation waits for one. True: the key has capacity by now, so it need not wait. If this and a
   * `free` run at the same time, one sees the other: no task waits while a reservation is free.
   */
  want(wish: ReservationWish): Promise<boolean>;
  /** Ends reservations; returns waiting tasks, as many as were ended, longest waiting first. */
  free(reservations: readonly Reservation[]): Promise<readonly string[]>;
  /**
   * Frees up to `limit` reservations of ended runs, under one key or under all; returns tasks that waited for them. If
   * there are very many keys, one call examines some of them, and the next call others.
   */
  sweep(key: string | null, limit: number): Promise<SweepReply>;
  /** Not null: the store has no capacity for new work; try again after `retryAfterMs`. */
  pressure(): Promise<{ readonly retryAfterMs: number; readonly why: string } | null>;
  /** Every recently used key, by name. */
  figures(): Promise<readonly KeyFigures[]>;
  /** Deletes unused keys, permits and waiting entries; if there are very many keys, some with each call. */
  prune(): Promise<void>;
}

export interface RateAsk {
  readonly key: string;
  readonly rate: Rate;
  readonly count: number;
}

export interface RateGrant {
  readonly granted: number;
  /** Until one more is granted; 0: all were. */
  readonly retryAfterMs: number;
  /** The state after taking; a refund names it. */
  readonly mark: number;
}

export interface RateRefund {
  readonly key: string;
  readonly rate: Rate;
  /** How many of it are given back. */
  readonly count: number;
  readonly mark: number;
}

export interface PermitUse {
  readonly token: string;
  readonly task: string;
}

/** A run, as the ledger names it: a run token is never used again. */
export interface ReservationHolder {
  readonly task: string;
  readonly run: string;
}

export interface ReserveRequest {
  readonly key: string;
  readonly limit: number;
  readonly holders: readonly ReservationHolder[];
}

export interface ReservationWish {
  readonly key: string;
  readonly limit: number;
  readonly task: string;
}

export interface ReserveReply {
  /** One for each holder. */
  readonly isIn: readonly boolean[];
  /** How many tasks wait for a reservation under this key. */
  readonly waiting: number;
}

export interface Reservation extends ReservationHolder {
  readonly key: string;
}

export interface SweepReply {
  readonly freed: number;
  readonly wake: readonly string[];
}

/** The figures of a key, for operators. */
export interface KeyFigures {
  readonly key: string;
  /** Null: no rate was requested under it. */
  readonly rate: Rate | null;
  /** How many would be granted now. */
  readonly available: number | null;
  readonly concurrency: number | null;
  readonly held: number;
  readonly waiting: number;
  /** How often it refused, by its rate or by its concurrency limit. */
  readonly rejected: number;
}
