/** Overlapping transactions commit in another order than they began; most are over within this time. */
const OVERLAP_MS = 5_000;
const LEAST_PAUSE_MS = 1_000;
/** Look-ups from the beginning may take this share of the time at most. */
const SHARE = 10;
const PRIORITIES = 10;

/** A task that was handed out: where it stood. */
export interface DueTask {
  readonly queue: string;
  readonly priority: number;
  readonly dueMs: number;
}

/**
 * Where the look-ups of a `begin` start, for each queue and priority. Tasks that were begun leave dead entries at the front
 * of the index, and while a foreign transaction holds an old snapshot nothing can clean them up: every look-up would walk
 * over all of them, and the worker would slow down with every task it begins. So most look-ups start where the last task
 * was found, less a margin. Tasks before that (of a long transaction, given back, or brought back from a dead worker) are
 * found by look-ups from the beginning, which are made whenever a look finds nothing, and now and then.
 */
export class DueFloors {
  readonly #monotonic: () => number;
  readonly #floors = new Map<string, number>();
  /** Counts what came back: a look that began before must not raise the floors above it. */
  #returns = 0;
  #fullAt = -Infinity;
  #fullTookMs = 0;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** The answer of `look`; it gets a floor for each queue and priority, in order, null for the beginning. */
  async look<R>(
    queues: readonly string[],
    look: (floors: readonly (number | null)[]) => Promise<R>,
    found: (reply: R) => readonly DueTask[],
  ): Promise<R> {
    const returns = this.#returns;
    if (this.#floors.size > 0 && !this.#isFullDue()) {
      const reply = await look(this.#floorsOf(queues));
      const tasks = found(reply);
      if (tasks.length > 0) {
        this.#note(tasks, returns);
        return reply;
      }
    }
    const from = this.#monotonic();
    const reply = await look(queues.flatMap(() => NO_FLOORS));
    this.#fullAt = this.#monotonic();
    this.#fullTookMs = this.#fullAt - from;
    this.#note(found(reply), returns);
    return reply;
  }

  /** There may be tasks before the floors: the next look is from the beginning. */
  reset(): void {
    this.#returns += 1;
    this.#floors.clear();
  }

  /** These tasks wait again, perhaps before the floors: the next look begins with them. */
  lower(tasks: readonly DueTask[]): void {
    if (tasks.length > 0) this.#returns += 1;
    for (const { queue, priority, dueMs } of tasks) {
      const key = `${priority} ${queue}`;
      // The time is rounded.
      const floorMs = dueMs - 1;
      if (floorMs < (this.#floors.get(key) ?? -Infinity)) this.#floors.set(key, floorMs);
    }
  }

  #isFullDue(): boolean {
    const pauseMs = Math.max(LEAST_PAUSE_MS, this.#fullTookMs * SHARE);
    return this.#monotonic() - this.#fullAt >= pauseMs;
  }

  #floorsOf(queues: readonly string[]): readonly (number | null)[] {
    return queues.flatMap(queue =>
      NO_FLOORS.map((_, priority) => this.#floors.get(`${priority} ${queue}`) ?? null),
    );
  }

  #note(tasks: readonly DueTask[], returns: number): void {
    if (returns !== this.#returns) return;
    for (const { queue, priority, dueMs } of tasks) {
      const floorMs = dueMs - OVERLAP_MS;
      const key = `${priority} ${queue}`;
      if (Number.isFinite(floorMs) && floorMs > (this.#floors.get(key) ?? -Infinity))
        this.#floors.set(key, floorMs);
    }
  }
}

const NO_FLOORS: readonly null[] = Array.from({ length: PRIORITIES }, () => null);
