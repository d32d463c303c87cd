import { rowOfMetric, type MetricName } from './catalogue.ts';
import type { Histogram, SeriesValue, Snapshot } from './registry.ts';

type Entry = readonly [readonly string[], SeriesValue];

/** The figures of several processes as those of one: everything adds up, but the worst counts where a sum means nothing. */
export function mergeSnapshots(snapshots: readonly Snapshot[]): Snapshot {
  const found: Partial<Record<MetricName, Map<string, Entry>>> = {};
  for (const snapshot of snapshots)
    for (const [key, series] of Object.entries(snapshot)) {
      const name = key as MetricName;
      const all = (found[name] ??= new Map());
      for (const entry of series ?? []) {
        const at = entry[0].join('\n');
        const before = all.get(at);
        all.set(at, before === undefined ? entry : [entry[0], join(name, before[1], entry[1])]);
      }
    }
  return Object.fromEntries(Object.entries(found).map(([name, all]) => [name, [...all.values()]]));
}

const WORST: ReadonlySet<MetricName> = new Set([
  'outlast_breaker_state',
  'outlast_oldest_pending_age_seconds',
  'outlast_event_loop_delay_seconds',
  // Every process has read the same store.
  'outlast_slo_burn_rate',
  'outlast_totals',
]);

function join(name: MetricName, a: SeriesValue, b: SeriesValue): SeriesValue {
  if (typeof a === 'number' && typeof b === 'number')
    return WORST.has(name) ? Math.max(a, b) : a + b;
  const [one, two] = [a as Histogram, b as Histogram];
  return {
    counts: one.counts.map((count, index) => count + (two.counts[index] ?? 0)),
    sum: one.sum + two.sum,
    count: one.count + two.count,
  };
}

/** What counts of a process that has ended: its gauges do not. */
export function withoutGauges(snapshot: Snapshot): Snapshot {
  return Object.fromEntries(
    Object.entries(snapshot).filter(([name]) => rowOfMetric(name as MetricName).kind !== 'gauge'),
  );
}
