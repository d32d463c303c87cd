import { METRIC_NAMES, rowOfMetric, type MetricName } from './catalogue.ts';

/** One series: a number, or a histogram as counts per bucket (the last is beyond all), sum and count. */
export type SeriesValue = number | Histogram;

export interface Histogram {
  readonly counts: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** All series by metric, each with its label values. Plain data: it travels between processes. */
export type Snapshot = Readonly<
  Partial<Record<MetricName, readonly (readonly [labels: readonly string[], SeriesValue])[]>>
>;

export type Labels = readonly string[];

/** Called with every single value, for exporters that aggregate by themselves. */
export type OnSample = (name: MetricName, labels: Labels, value: number) => void;

interface MutableHistogram {
  counts: number[];
  sum: number;
  count: number;
}

interface Series {
  readonly labels: Labels;
  value: number;
  readonly histogram: MutableHistogram | null;
}

export interface RegistryOptions {
  /** Names of tasks that have series of their own; left out: the first of them, up to the bound. */
  readonly tasks?: readonly string[];
}

const OTHER = 'other';
/** Distinct values of one label. A sender that invents task names must not fill the memory of worker and Prometheus. */
const MAX_VALUES = 200;
const MAX_LENGTH = 128;
/** Series of one metric. */
const MAX_SERIES = 2_000;

const keyOf = (labels: Labels): string =>
  labels.length === 1 ? (labels[0] ?? '') : labels.join('\n');

/** What a process counts. Bounded in every dimension. */
export class Registry {
  readonly #metrics = new Map<MetricName, Map<string, Series>>();
  readonly #values = new Map<string, Set<string>>();
  readonly #tasks: ReadonlySet<string> | null;
  readonly #onSample = new Set<OnSample>();
  readonly #readers = new Set<() => void>();

  constructor({ tasks }: RegistryOptions = {}) {
    this.#tasks = tasks === undefined ? null : new Set(tasks);
    for (const name of METRIC_NAMES) this.#metrics.set(name, new Map());
  }

  add(name: MetricName, labels: Labels = [], by = 1): void {
    if (by <= 0) return;
    const series = this.#series(name, labels);
    series.value += by;
    for (const tell of this.#onSample) tell(name, series.labels, by);
  }

  set(name: MetricName, labels: Labels, value: number): void {
    this.#series(name, labels).value = value;
  }

  /** Drops all series of a gauge, before it is read anew. */
  clear(name: MetricName): void {
    this.#metrics.get(name)?.clear();
  }

  observe(name: MetricName, labels: Labels, value: number): void {
    const { histogram, labels: kept } = this.#series(name, labels);
    if (histogram === null || !Number.isFinite(value)) return;
    const { buckets = [] } = rowOfMetric(name);
    const found = buckets.findIndex(bound => value <= bound);
    const at = found < 0 ? buckets.length : found;
    histogram.counts[at] = (histogram.counts[at] ?? 0) + 1;
    histogram.sum += value;
    histogram.count += 1;
    for (const tell of this.#onSample) tell(name, kept, value);
  }

  /** Called before every snapshot, to set gauges. Returns the undo. */
  beforeReading(read: () => void): () => void {
    this.#readers.add(read);
    return () => void this.#readers.delete(read);
  }

  onSample(tell: OnSample): () => void {
    this.#onSample.add(tell);
    return () => void this.#onSample.delete(tell);
  }

  snapshot(): Snapshot {
    for (const read of this.#readers) read();
    const found: Partial<Record<MetricName, [Labels, SeriesValue][]>> = {};
    for (const [name, all] of this.#metrics) {
      if (all.size === 0) continue;
      found[name] = [...all.values()].map(({ labels, value, histogram }) => [
        labels,
        histogram === null ? value : { ...histogram, counts: [...histogram.counts] },
      ]);
    }
    return found;
  }

  #series(name: MetricName, given: Labels): Series {
    const all = this.#metrics.get(name) as Map<string, Series>;
    // Only labels that have passed the guard have a series.
    const seen = all.get(keyOf(given));
    if (seen) return seen;
    const row = rowOfMetric(name);
    const labels = given.map((value, index) => this.#guard(row.labels[index] ?? '', value));
    const key = keyOf(labels);
    const known = all.get(key);
    if (known) return known;
    if (all.size >= MAX_SERIES)
      return this.#series(
        name,
        row.labels.map(() => OTHER),
      );
    const { kind, buckets = [] } = row;
    const histogram =
      kind === 'histogram'
        ? { counts: Array.from({ length: buckets.length + 1 }, () => 0), sum: 0, count: 0 }
        : null;
    const series = { labels, value: 0, histogram };
    all.set(key, series);
    return series;
  }

  #guard(label: string, value: string): string {
    if (label === 'task' && this.#tasks !== null) return this.#tasks.has(value) ? value : OTHER;
    const short = value.slice(0, MAX_LENGTH);
    const seen = this.#values.get(label) ?? new Set();
    this.#values.set(label, seen);
    if (seen.has(short)) return short;
    if (seen.size >= MAX_VALUES) return OTHER;
    seen.add(short);
    return short;
  }
}
