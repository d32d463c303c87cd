/** Overlapping transactions commit in another order than they began; most are over within this time. */
const OVERLAP_MS = 5_000;
const LEAST_PAUSE_MS = 1_000;
/** Scans from the beginning may take this share of the time at most. */
const SHARE = 10;

/**
 * Where a scan for due rows may begin. Rows that were moved on leave dead entries at the front of the index, and while a
 * foreign transaction holds an old snapshot nothing can clean them up: every scan would walk over all of them, and the
 * relay would slow down with every row it moves. So most scans begin where the last one ended, less a margin. Rows
 * before that (of a long transaction, or given back by another relay) are found by scans from the beginning, which run
 * whenever a scan finds nothing, and now and then.
 */
export class ScanFloor {
  readonly #monotonic: () => number;
  #floorMs: number | null = null;
  #fullAt = -Infinity;
  #fullTookMs = 0;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** The rows that `look` finds; it gets an instant to begin at, or null for the beginning. */
  async look<R extends { readonly availableMs: number }>(
    look: (floorMs: number | null) => Promise<readonly R[]>,
  ): Promise<readonly R[]> {
    if (this.#floorMs !== null && !this.#isFullDue()) {
      const rows = await look(this.#floorMs);
      if (rows.length > 0) return this.#seen(rows);
    }
    const from = this.#monotonic();
    const rows = await look(null);
    this.#fullAt = this.#monotonic();
    this.#fullTookMs = this.#fullAt - from;
    return this.#seen(rows);
  }

  get floorMs(): number | null {
    return this.#floorMs;
  }

  /** There may be rows before the floor: the next scan is from the beginning. */
  reset(): void {
    this.#floorMs = null;
  }

  #isFullDue(): boolean {
    const pauseMs = Math.max(LEAST_PAUSE_MS, this.#fullTookMs * SHARE);
    return this.#monotonic() - this.#fullAt >= pauseMs;
  }

  #seen<R extends { readonly availableMs: number }>(rows: readonly R[]): readonly R[] {
    let last = -Infinity;
    for (const { availableMs } of rows) last = Math.max(last, availableMs);
    if (last > -Infinity) this.#floorMs = last - OVERLAP_MS;
    return rows;
  }
}
