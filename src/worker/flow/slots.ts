import type { Clock } from '../../runtime/runtime.ts';
import type { RunStop, StopReason } from '../run/settlement.ts';

/** A run that has waited for a slot for this long is given back: another worker may have one. */
const LATE_MS = 250;

/** The part of a run that slots need. */
export interface SlotHolder {
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
 * The slots of a worker: the number of handlers that run at once. While tasks are short more of them are begun than there are
 * slots, and a run without one waits here, for as long as a few handlers take. A run that is stopped while it waits is started
 * at once: it sees the stop, and leaves.
 */
export class Slots<Run extends SlotHolder> {
  readonly #slots: number;
  readonly #clock: Clock;
  readonly #start: (run: Run) => void;
  #taken = 0;
  readonly #waiting: Waiting<Run>[] = [];
  #isWatched = false;

  constructor(slots: number, clock: Clock, start: (run: Run) => void) {
    this.#slots = slots;
    this.#clock = clock;
    this.#start = start;
  }

  /** Runs that have a slot, and runs that wait for one. */
  get used(): number {
    return this.#taken + this.#waiting.length;
  }

  /** Starts the run as soon as there is a slot. */
  enter(run: Run): void {
    if (this.#taken < this.#slots) return this.#give(run);
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
    if (next && this.#taken < this.#slots) this.#callUp(next);
  }

  /** Gives back runs that have waited for a slot since then, or longer. */
  release(since: number = Infinity): void {
    const late = this.#waiting.filter(({ sinceMs }) => sinceMs <= since);
    for (const { run } of late) run.stop('release');
  }

  /** One timer for all waiting runs, and none while no run waits. */
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
    this.#give(entry.run);
  }

  #give(run: Run): void {
    this.#taken += 1;
    this.#start(run);
  }
}
