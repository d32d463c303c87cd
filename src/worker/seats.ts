import type { Clock } from '../runtime/clock.ts';
import type { RunStop, StopReason } from './run-stop.ts';

/** A run that has waited for a place for this long belongs to whoever has one. */
const LATE_MS = 250;

/** What needs a place. */
export interface Seated {
  stop(reason: StopReason): void;
  readonly stopping: Pick<RunStop, 'onStop' | 'offStop'>;
}

interface Waiting<Run> {
  readonly run: Run;
  readonly sinceMs: number;
  /** Called when it is stopped. */
  readonly wake: () => void;
}

/**
 * The places of a worker: so many handlers run at once. While tasks are short more are begun than there is room for
 * (`early` times as many as there are places), and what has no place yet waits here, for as long as a few handlers take. Whoever is stopped
 * while it waits is started at once: it sees that, and leaves.
 */
export class Seats<Run extends Seated> {
  readonly #seats: number;
  readonly #clock: Clock;
  readonly #start: (run: Run) => void;
  #taken = 0;
  readonly #waiting: Waiting<Run>[] = [];
  #isWatched = false;

  constructor(seats: number, clock: Clock, start: (run: Run) => void) {
    this.#seats = seats;
    this.#clock = clock;
    this.#start = start;
  }

  /** How many may be begun and not have ended. */
  most(early: number): number {
    return early * this.#seats;
  }

  /** How many messages should be at hand: as many as are begun next while others are on their way. */
  stock(early: number): number {
    return Math.max(2, early) * this.#seats;
  }

  /**
   * How many may be begun now. A handler that has ended makes room for the next while its run is being settled. What waits
   * to be settled has a limit too, or a store that begins and does not commit would fill the memory; it is as large, so
   * that a batch which is being settled does not make the next one smaller.
   */
  free(runs: number, early: number): number {
    const most = this.most(early);
    return Math.min(most - this.#taken - this.#waiting.length, 2 * most - runs);
  }

  /** Starts the run as soon as there is a place. */
  enter(run: Run): void {
    if (this.#taken < this.#seats) return this.#seat(run);
    const wake = (): void => this.#callUp(entry);
    const entry: Waiting<Run> = { run, sinceMs: this.#clock.monotonic(), wake };
    this.#waiting.push(entry);
    run.stopping.onStop(wake);
    this.#watch(LATE_MS);
  }

  /** A handler has ended. */
  leave(): void {
    this.#taken -= 1;
    const [next] = this.#waiting;
    if (next && this.#taken < this.#seats) this.#callUp(next);
  }

  /** Gives back what has waited for a place since then, or before. */
  release(since: number = Infinity): void {
    const late = this.#waiting.filter(({ sinceMs }) => sinceMs <= since);
    for (const { run } of late) run.stop('release');
  }

  /** One timer for all that wait, and none while nothing does. */
  #watch(ms: number): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    this.#clock.timer(ms, () => {
      this.#isWatched = false;
      const now = this.#clock.monotonic();
      this.release(now - LATE_MS);
      const [next] = this.#waiting;
      if (next) this.#watch(next.sinceMs + LATE_MS - now);
    });
  }

  #callUp(entry: Waiting<Run>): void {
    // Nearly always the first.
    this.#waiting.splice(this.#waiting.indexOf(entry), 1);
    entry.run.stopping.offStop(entry.wake);
    this.#seat(entry.run);
  }

  #seat(run: Run): void {
    this.#taken += 1;
    this.#start(run);
  }
}
