import type { Clock } from '../runtime/clock.ts';

/** What comes back (retries, tasks of dead workers) is looked for this often, however full the broker is. */
const LOOK_EVERY_MS = 200;

/**
 * How many free places are kept for what waits in the ledger, where messages would take them all: without a share of its
 * own a task that comes back would wait until the broker is empty.
 */
export class LedgerShare {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #places: number;
  #lookedAt = -Infinity;
  #hasMore = false;
  #wasAlone = false;

  /** @param places tasks that run at once */
  constructor(clock: Pick<Clock, 'monotonic'>, places: number) {
    this.#clock = clock;
    this.#places = places;
  }

  /** Of so many free places. */
  of(free: number): number {
    const isDue = this.#clock.monotonic() - this.#lookedAt >= LOOK_EVERY_MS;
    // A single place goes to either in turn.
    const goesOn = this.#hasMore && (free > 1 || !this.#wasAlone);
    const share = isDue || goesOn ? Math.max(1, this.limit(Math.floor(free / 2))) : 0;
    this.#wasAlone = share === free;
    return share;
  }

  /**
   * How many it may be asked for, of so many that could be begun: no more than run at once where it had nothing before.
   * What comes back from a crash comes together, and who did it is among them.
   */
  limit(most: number): number {
    return this.#hasMore ? most : Math.min(most, this.#places);
  }

  /** The ledger was asked for `limit` tasks, and had so many. */
  note(limit: number, given: number): void {
    if (limit === 0) return;
    this.#lookedAt = this.#clock.monotonic();
    this.#hasMore = given === limit;
  }
}
