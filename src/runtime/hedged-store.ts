import { outlastError } from '../errors/error.ts';
import { sleep, type Clock } from './runtime.ts';

/** A second connection to a store, for as long as it is needed. */
export interface SpareLink<S> {
  readonly store: S;
  close(): Promise<void>;
}

export interface HedgeTimes {
  readonly beatMs: number;
  readonly leaseMs: number;
}

/** Part of a lease: how long to wait for an answer at most before the call is sent on another connection. */
const LATEST_HEDGE = 0.3;

interface Spare<S> {
  readonly link: Promise<SpareLink<S>>;
  readonly openedAt: number;
}

/**
 * Calls to a store that must not depend on one connection, because a lease depends on them. A connection can die silently:
 * what is sent vanishes, and so would every further call. A call without an answer after a moment is sent again on a new
 * connection, and the first answer counts; so only repeatable calls may use this. The connection that answered is kept
 * until it falls silent itself.
 */
export class HedgedStore<S> {
  readonly #store: S;
  readonly #openSpare: (() => Promise<SpareLink<S>>) | null;
  readonly #clock: Clock;
  readonly #times: HedgeTimes;
  #spare: Spare<S> | null = null;
  /** The spare connection has answered when the other had not. */
  #isSpareBetter = false;
  /** How long the last answer took: the usual delay of this store is no reason for a second connection. */
  #usualMs = 0;

  /** `openSpare` is null if a store has only one connection. */
  constructor(
    store: S,
    openSpare: (() => Promise<SpareLink<S>>) | null,
    clock: Clock,
    times: HedgeTimes,
  ) {
    this.#store = store;
    this.#openSpare = openSpare;
    this.#clock = clock;
    this.#times = times;
  }

  /** Throws when neither connection answers for as long as a lease lasts. */
  async call<T>(send: (store: S) => Promise<T>): Promise<T> {
    const sentAt = this.#clock.monotonic();
    const first = this.#sendFirst(send);
    first.catch(ignore);
    if (this.#openSpare === null || (await this.#isSettledWithin(first, this.#hedgeMs()))) {
      const answer = await first;
      this.#usualMs = this.#clock.monotonic() - sentAt;
      return answer;
    }
    const again = this.#sendAgain(this.#spareSince(sentAt, this.#openSpare), send);
    const giveUp = new AbortController();
    const late = sleep(this.#clock, this.#times.leaseMs, giveUp.signal).then(() => {
      throw unanswered();
    });
    late.catch(ignore);
    try {
      return await Promise.race([Promise.any([first, again]), late]);
    } catch (error) {
      throw error instanceof AggregateError ? error.errors[0] : error;
    } finally {
      giveUp.abort();
    }
  }

  async close(): Promise<void> {
    const spare = this.#spare;
    this.#spare = null;
    this.#isSpareBetter = false;
    await spare?.link.then(link => link.close()).catch(ignore);
  }

  async #sendFirst<T>(send: (store: S) => Promise<T>): Promise<T> {
    const spare = this.#isSpareBetter ? this.#spare : null;
    return await send(spare === null ? this.#store : (await spare.link).store);
  }

  async #sendAgain<T>(spare: Spare<S>, send: (store: S) => Promise<T>): Promise<T> {
    const { store } = await spare.link;
    const sentAt = this.#clock.monotonic();
    const answer = await send(store);
    this.#usualMs = this.#clock.monotonic() - sentAt;
    if (spare === this.#spare) this.#isSpareBetter = true;
    return answer;
  }

  /** A spare opened after the call was sent is not the one that has fallen silent: callers share it. */
  #spareSince(sentAt: number, open: () => Promise<SpareLink<S>>): Spare<S> {
    const last = this.#spare;
    if (last !== null && last.openedAt >= sentAt) return last;
    const spare = { link: open(), openedAt: this.#clock.monotonic() };
    this.#spare = spare;
    this.#isSpareBetter = false;
    spare.link.catch(() => {
      if (this.#spare === spare) this.#spare = null;
    });
    void last?.link.then(link => link.close()).catch(ignore);
    return spare;
  }

  #hedgeMs(): number {
    const { beatMs, leaseMs } = this.#times;
    return Math.min(Math.max(2 * this.#usualMs, beatMs / 2), LATEST_HEDGE * leaseMs);
  }

  async #isSettledWithin(answer: Promise<unknown>, ms: number): Promise<boolean> {
    const over = new AbortController();
    const settled = answer.then(
      () => true,
      () => true,
    );
    const waited = sleep(this.#clock, ms, over.signal).then(() => false);
    try {
      return await Promise.race([settled, waited]);
    } finally {
      over.abort();
    }
  }
}

const ignore = (): void => undefined;

function unanswered(): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: 'a lease could not be renewed: there was no answer on two connections',
    hint: 'Look at the network between this process and its store.',
    fields: {},
  });
}
