import { outlastError } from '../../errors/error.ts';
import type { Ledger, RenewReply } from '../../ledger/ledger.ts';
import { sleep, type Clock } from '../../runtime/runtime.ts';
import { RunListPace } from './run-list-pace.ts';

/** A separate connection to the ledger, for beats. */
export interface HeartbeatLink extends Pick<Ledger, 'renew'> {
  close(): Promise<void>;
}

export interface HeartbeatTimes {
  readonly beatMs: number;
  readonly leaseMs: number;
}

/** A beat that was answered. */
export interface AnsweredBeat {
  readonly reply: RenewReply;
  /** When the call that was answered was sent: the lease lasts at least from then. */
  readonly sentAt: number;
}

/** A connection, also one that is still being opened. */
type Opening = Promise<HeartbeatLink>;

interface Sent {
  readonly link: Opening;
  readonly answer: Promise<AnsweredBeat>;
}

/** As a share of the lease: how long to wait for a beat at most before it is sent on another connection. */
const LATEST_HEDGE = 0.3;

/**
 * Beats that do not depend on one connection. A connection can die silently: what is sent vanishes, and so would every
 * further beat, for longer than a lease lasts. A beat that has no answer after a moment is sent again on a new connection.
 * The connection that answers first is kept, the other one is closed; its late replies are ignored. To open a connection may
 * take as long as to get no answer on one: it counts as part of the beat. Only the first connection is asked what the worker
 * runs: where that takes long, the second one answers at once.
 */
export class HedgedHeartbeat {
  readonly #open: () => Opening;
  readonly #clock: Clock;
  readonly #times: HeartbeatTimes;
  readonly #lists: RunListPace;
  #current: Opening | null = null;
  /** How long the last reply took: the usual latency of this store is no reason for a second connection. */
  #usualMs = 0;

  constructor(open: () => Opening, clock: Clock, times: HeartbeatTimes) {
    this.#open = open;
    this.#clock = clock;
    this.#times = times;
    this.#lists = new RunListPace(clock);
  }

  /** Renews the lease. Throws when there is no answer within two beats. */
  async renew(worker: string): Promise<AnsweredBeat> {
    const giveUp = new AbortController();
    const { isDue } = this.#lists;
    let tookMs: number | null = null;
    const first = this.#send(this.#current ?? this.#open(), worker, isDue);
    this.#current = first.link;
    const sent = [first];
    try {
      const isEarly = await this.#isSettledWithin(first.answer, this.#hedgeMs());
      if (!isEarly) sent.push(this.#send(this.#open(), worker, false));
      const late = sleep(this.#clock, 2 * this.#times.beatMs, giveUp.signal).then(() => {
        throw unanswered();
      });
      late.catch(() => undefined);
      const { link, beat } = await Promise.race([firstOf(sent), late]);
      this.#current = link;
      this.#usualMs = this.#clock.monotonic() - beat.sentAt;
      if (link === first.link) tookMs = this.#usualMs;
      return beat;
    } catch (error) {
      // Neither connection was answered: the next beat opens a new one.
      if (sent.length > 1) this.#current = null;
      throw error;
    } finally {
      giveUp.abort();
      if (isDue) this.#lists.listed(tookMs);
      for (const { link } of sent) if (link !== this.#current) closeWhenOpen(link);
    }
  }

  #send(link: Opening, worker: string, listsRuns: boolean): Sent {
    const answer = link.then(async opened => {
      const sentAt = this.#clock.monotonic();
      return { reply: await opened.renew(worker, listsRuns), sentAt };
    });
    answer.catch(ignore);
    link.catch(() => {
      if (this.#current === link) this.#current = null;
    });
    return { link, answer };
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

/** The first one that is answered; an error only if none is. */
async function firstOf(
  sent: readonly Sent[],
): Promise<{ readonly link: Opening; readonly beat: AnsweredBeat }> {
  try {
    return await Promise.any(sent.map(async ({ link, answer }) => ({ link, beat: await answer })));
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}

const ignore = (): void => undefined;

function closeWhenOpen(link: Opening): void {
  link.then(opened => opened.close()).catch(ignore);
}

function unanswered(): Error {
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: 'a beat was not answered, on two connections',
    hint: 'Look at the network between this worker and its ledger.',
    fields: {},
  });
}
