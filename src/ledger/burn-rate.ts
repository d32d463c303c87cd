import { MOST_AHEAD_MS, type Bucket, type Objective, type ObjectiveCounts } from './tallies.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Five minutes to three days. */
export type BurnWindow = '5m' | '30m' | '1h' | '6h' | '3d';

/** How far back a burn rate looks. The longest is counted in hours, the others in minutes; the running one counts as one. */
export const WINDOWS: Readonly<Record<BurnWindow, number>> = Object.freeze({
  '5m': 5 * MINUTE_MS,
  '30m': 30 * MINUTE_MS,
  '1h': HOUR_MS,
  '6h': 6 * HOUR_MS,
  '3d': 72 * HOUR_MS,
});
const WINDOW_NAMES = Object.keys(WINDOWS) as readonly BurnWindow[];

/**
 * An objective burns when both windows are above the rate: the long one says that it matters, the short one that it goes on. At 14.4
 * an hour costs 2 % of the budget of 30 days, at 6 six hours cost 5 %, and at 1 three days cost 10 %.
 */
const RULES = [
  { above: 14.4, long: '1h', short: '5m', alert: 'page' },
  { above: 6, long: '6h', short: '30m', alert: 'page' },
  { above: 1, long: '3d', short: '6h', alert: 'ticket' },
] as const satisfies readonly {
  readonly above: number;
  readonly long: BurnWindow;
  readonly short: BurnWindow;
  readonly alert: 'page' | 'ticket';
}[];

/** What a window has seen. `burnRate`: 1 uses up the budget exactly; null: nothing ended, so nothing can be said. */
export interface BurnFigures {
  readonly good: number;
  readonly bad: number;
  readonly burnRate: number | null;
}

/** One objective of one task. */
export interface BurnStatus {
  readonly task: string;
  readonly objective: 'success' | 'latency';
  readonly target: number;
  /** Of a latency; null: a success. */
  readonly withinMs: number | null;
  /** `page`, `ticket`: two windows burn too fast. `no-traffic`: nothing ended in three days. */
  readonly status: 'ok' | 'page' | 'ticket' | 'no-traffic';
  readonly windows: Readonly<Record<BurnWindow, BurnFigures>>;
}

/** What `outlast slo` shows. */
export interface BurnReport {
  /** By the clock of the ledger. */
  readonly at: string;
  readonly objectives: readonly BurnStatus[];
}

/** Burn rates of all objectives. `target` replaces that of every success, to try another. */
export function burnReport(
  { nowMs, objectives }: ObjectiveCounts,
  { target }: { readonly target?: number } = {},
): BurnReport {
  return {
    at: new Date(nowMs).toISOString(),
    objectives: objectives.flatMap(objective => statusesOf(objective, nowMs, target)),
  };
}

function statusesOf(
  { name: task, slo, buckets }: Objective,
  nowMs: number,
  target: number | undefined,
): readonly BurnStatus[] {
  const statuses: BurnStatus[] = [];
  if (slo.success !== null) {
    const success = { task, objective: 'success', withinMs: null } as const;
    const count = (of: Counts) => ({ good: of.done, bad: of.dead + of.expired });
    statuses.push(judge({ ...success, target: target ?? slo.success }, buckets, nowMs, count));
  }
  if (slo.latency !== null) {
    const { withinMs, target: own } = slo.latency;
    const latency = { task, objective: 'latency', withinMs, target: own } as const;
    const count = (of: Counts) => ({ good: of.done - of.slow, bad: of.slow });
    statuses.push(judge(latency, buckets, nowMs, count));
  }
  return statuses;
}

type Counts = Record<Bucket['figure'], number>;

function judge(
  objective: Omit<BurnStatus, 'status' | 'windows'>,
  buckets: readonly Bucket[],
  nowMs: number,
  count: (counts: Counts) => { readonly good: number; readonly bad: number },
): BurnStatus {
  const windows = Object.fromEntries(
    WINDOW_NAMES.map(window => {
      const { good, bad } = count(countIn(buckets, WINDOWS[window], nowMs));
      const all = good + bad;
      const burnRate = all === 0 ? null : bad / all / (1 - objective.target);
      return [window, { good, bad, burnRate }];
    }),
  ) as unknown as BurnStatus['windows'];
  const isAbove = (window: BurnWindow, above: number): boolean =>
    (windows[window].burnRate ?? 0) > above;
  const broken = RULES.find(
    ({ above, long, short }) => isAbove(long, above) && isAbove(short, above),
  );
  const isSilent = windows['3d'].burnRate === null;
  return { ...objective, status: broken?.alert ?? (isSilent ? 'no-traffic' : 'ok'), windows };
}

/** The buckets that begin within the window. Those a little ahead of the clock, which was set back, count as of now. */
function countIn(buckets: readonly Bucket[], windowMs: number, nowMs: number): Counts {
  const unitMs = windowMs > WINDOWS['6h'] ? HOUR_MS : MINUTE_MS;
  const firstMs = nowMs - (nowMs % unitMs) - windowMs + unitMs;
  const counts: Counts = { done: 0, dead: 0, expired: 0, slow: 0 };
  for (const { startMs, figure, count } of buckets)
    if (startMs >= firstMs && startMs <= nowMs + MOST_AHEAD_MS) counts[figure] += count;
  return counts;
}
