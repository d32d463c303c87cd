import type { Slo } from '../task/slo.ts';

/**
 * What a ledger counts, in the step in which it happens. `failed`: attempts; `retried`: those that another attempt follows.
 * `resurrected`: came back after their worker was lost. `duplicates`: messages of tasks that the ledger had. `stale`: commits
 * of runs that had lost their task. `slow`: done, but later than the objective says.
 */
export const FIGURES = [
  'done',
  'failed',
  'retried',
  'dead',
  'discarded',
  'cancelled',
  'expired',
  'resurrected',
  'duplicates',
  'stale',
  'slow',
] as const;
/** What is counted of tasks. */
export type Figure = (typeof FIGURES)[number];

/** What happened to tasks of a name and queue since the beginning. */
export interface TaskTotals {
  readonly name: string;
  readonly queue: string;
  /** Without those that are zero. */
  readonly counts: Readonly<Partial<Record<Figure, number>>>;
}

/** The figures that objectives are about. */
export const KEPT_FIGURES = ['done', 'dead', 'expired', 'slow'] as const;

/** One count of one minute, or of one hour that is over for long. */
export interface Bucket {
  readonly startMs: number;
  readonly figure: (typeof KEPT_FIGURES)[number];
  readonly count: number;
}

export interface Objective {
  readonly name: string;
  readonly slo: Slo;
  readonly buckets: readonly Bucket[];
}

export interface ObjectiveCounts {
  /** The store's clock. */
  readonly nowMs: number;
  readonly objectives: readonly Objective[];
}

export const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Minutes are added up to hours when no window needs them: the longest that is made of minutes is 6 hours. */
export const MINUTES_KEPT_MS: number = 7 * HOUR_MS;
/** And hours to totals: the longest window is 3 days. */
export const BUCKETS_KEPT_MS: number = 73 * HOUR_MS;
/** A bucket ahead of the clock counts as of now: the clock has been set back. One further ahead was never right. */
export const MOST_AHEAD_MS = 3_600_000;
/** Names come from messages: what comes after so many series is counted under one name. */
export const MOST_SERIES = 20_000;
export const OTHER_NAME = '(other)';

/** Where a bucket belongs now; null: in the totals. */
export function bucketNow(startMs: number, nowMs: number): number | null {
  if (startMs > nowMs + MOST_AHEAD_MS) return null;
  const hourMs = startMs - (startMs % HOUR_MS);
  const thisHourMs = nowMs - (nowMs % HOUR_MS);
  if (hourMs < thisHourMs - BUCKETS_KEPT_MS) return null;
  return hourMs < thisHourMs - MINUTES_KEPT_MS ? hourMs : startMs;
}

interface CountRow {
  readonly name: string;
  readonly queue: string;
  readonly figure: string;
  readonly count: number;
}

/** Counts of all stores and stripes, put together by name and queue. */
export function addUp(rows: Iterable<CountRow>): readonly TaskTotals[] {
  const found = new Map<string, { name: string; queue: string; counts: Record<string, number> }>();
  for (const { name, queue, figure, count } of rows) {
    const key = JSON.stringify([name, queue]);
    const known = found.get(key) ?? { name, queue, counts: {} };
    known.counts[figure] = (known.counts[figure] ?? 0) + count;
    found.set(key, known);
  }
  return [...found.values()].toSorted((a, b) =>
    a.name === b.name ? compare(a.queue, b.queue) : compare(a.name, b.name),
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
