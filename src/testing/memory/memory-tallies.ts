import {
  addUp,
  bucketNow,
  KEPT_FIGURES,
  MINUTE_MS,
  type Bucket,
  type Figure,
  type ObjectiveCounts,
  type TaskTotals,
} from '../../ledger/tallies.ts';
import type { Slo } from '../../task/slo.ts';
import type { TaskRecord } from './memory-record.ts';

interface Count {
  readonly name: string;
  readonly queue: string;
  readonly figure: Figure;
  count: number;
}

type Counted = Pick<TaskRecord, 'envelope' | 'createdMs' | 'epoch'>;

/** What happened to tasks, counted in the step in which it happens. */
export class MemoryTallies {
  readonly #objectives = new Map<string, Slo>();
  readonly #totals = new Map<string, Count>();
  /** By name: a count by minute, or hour, and figure. */
  readonly #buckets = new Map<string, Map<string, { -readonly [K in keyof Bucket]: Bucket[K] }>>();
  readonly #clock: { readonly nowMs: number };

  constructor(clock: { readonly nowMs: number }) {
    this.#clock = clock;
  }

  declare(objectives: Readonly<Record<string, Slo | null>>): void {
    for (const [name, slo] of Object.entries(objectives)) {
      if (slo !== null) this.#objectives.set(name, slo);
      else if (this.#objectives.delete(name)) this.#buckets.delete(name);
    }
  }

  count(record: Counted, figure: Figure): void {
    const { name, queue } = record.envelope ?? { name: 'unknown', queue: '' };
    // A message that was never begun was none of the tasks that an objective is about.
    this.#add({ name, queue, figure }, figure === 'dead' && record.epoch === 0);
    if (figure !== 'done') return;
    const { nowMs } = this.#clock;
    const sinceMs = Math.max(record.createdMs, record.envelope?.etaMs ?? 0);
    const { latency } = this.#objectives.get(name) ?? {};
    if (latency && nowMs - sinceMs > latency.withinMs) this.#add({ name, queue, figure: 'slow' });
  }

  #add(counted: Omit<Count, 'count'>, isMessage = false): void {
    const { name, queue, figure } = counted;
    const key = JSON.stringify([name, queue, figure]);
    const total = this.#totals.get(key) ?? { ...counted, count: 0 };
    this.#totals.set(key, total);
    total.count += 1;
    const kept = KEPT_FIGURES.find(one => one === figure);
    if (kept === undefined || isMessage || !this.#objectives.has(name)) return;
    const { nowMs } = this.#clock;
    this.#put(name, { startMs: nowMs - (nowMs % MINUTE_MS), figure: kept, count: 1 });
  }

  #put(name: string, { startMs, figure, count }: Bucket): void {
    const own = this.#buckets.get(name) ?? new Map<string, Bucket>();
    this.#buckets.set(name, own);
    const key = `${startMs}:${figure}`;
    own.set(key, { startMs, figure, count: (own.get(key)?.count ?? 0) + count });
  }

  /** Puts minutes together to hours, and forgets what no window needs. */
  fold(): void {
    const { nowMs } = this.#clock;
    for (const [name, own] of this.#buckets) {
      const before = [...own.values()];
      own.clear();
      for (const bucket of before) {
        const startMs = bucketNow(bucket.startMs, nowMs);
        if (startMs !== null) this.#put(name, { ...bucket, startMs });
      }
    }
  }

  totals(): readonly TaskTotals[] {
    return addUp(this.#totals.values());
  }

  objectives(): ObjectiveCounts {
    const { nowMs } = this.#clock;
    const objectives = [...this.#objectives].map(([name, slo]) => ({
      name,
      slo,
      buckets: [...(this.#buckets.get(name)?.values() ?? [])],
    }));
    return { nowMs, objectives: objectives.toSorted((a, b) => (a.name < b.name ? -1 : 1)) };
  }
}
