import type { Rate } from '../task/admission-rule.ts';

/**
 * Who may come in, and how many run at once, by key. It lives in the store of the ledger, and only that store's clock is
 * compared. A rate is a state that time itself brings back: nothing of it can leak. A place is held in the name of a run,
 * and counts as long as it is there; `sweep` frees those whose run the ledger does not run any more.
 */
export interface AdmissionStore {
  /** Takes from several rates, each for itself; the keys differ. What is not granted takes nothing. */
  take(asks: readonly RateAsk[]): Promise<readonly RateGrant[]>;
  /**
   * Gives back what was taken and not used: only where nobody has taken from the key since, because later it would be
   * given twice, by us and by time. True: it was.
   */
  refund(takings: readonly RateTaking[]): Promise<readonly boolean[]>;
  /** Remembers a permit for so long. */
  hold(token: string, holdMs: number): Promise<void>;
  /** Whether each permit still holds. The first task that names one has it; the same task may ask again. */
  confirm(uses: readonly PermitUse[]): Promise<readonly boolean[]>;
  /** Places under one key, in the order of the runs; one that has its place keeps it. */
  reserve(ask: PlaceAsk): Promise<PlaceAnswer>;
  /**
   * A task that found no place waits for one. True: there is room by now, so it need not. Of this and a `free` at the same
   * time one sees the other: nobody waits beside an empty place.
   */
  want(wish: PlaceWish): Promise<boolean>;
  /** Ends places; returns tasks that waited for one, as many as were ended, the longest waiting first. */
  free(places: readonly Place[]): Promise<readonly string[]>;
  /**
   * Frees up to `limit` places, under one key or under all, whose runs are over; returns tasks that waited for them. Where
   * there are very many keys, one call looks at some of them, and the next at others.
   */
  sweep(key: string | null, limit: number): Promise<SweepReply>;
  /** Not null: the store has no room for new work, and may have some after so long. */
  pressure(): Promise<{ readonly retryAfterMs: number; readonly why: string } | null>;
  /** Every key that was used lately, by name. */
  figures(): Promise<readonly KeyFigures[]>;
  /** Forgets keys, permits and wishes that nobody needs any more; of very many keys some with each call. */
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
  /** The state after the taking; a refund names it. */
  readonly mark: number;
}

export interface RateTaking {
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
export interface PlaceHolder {
  readonly task: string;
  readonly run: string;
}

export interface PlaceAsk {
  readonly key: string;
  readonly limit: number;
  readonly holders: readonly PlaceHolder[];
}

export interface PlaceWish {
  readonly key: string;
  readonly limit: number;
  readonly task: string;
}

export interface PlaceAnswer {
  /** One for each holder. */
  readonly isIn: readonly boolean[];
  /** How many tasks wait for a place under this key. */
  readonly waiting: number;
}

export interface Place extends PlaceHolder {
  readonly key: string;
}

export interface SweepReply {
  readonly freed: number;
  readonly wake: readonly string[];
}

/** What an operator sees of a key. */
export interface KeyFigures {
  readonly key: string;
  /** Null: no rate was asked for under it. */
  readonly rate: Rate | null;
  /** How many would be granted now. */
  readonly available: number | null;
  readonly concurrency: number | null;
  readonly held: number;
  readonly waiting: number;
  /** How often it said no, by its rate or for want of a place. */
  readonly rejected: number;
}
