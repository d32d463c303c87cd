import { type Clock, type FaultPoint, noFaults } from '../../runtime/runtime.ts';
import {
  type Declared,
  MAX_SCHEDULES,
  type ScheduleChange,
  type ScheduleClock,
  type ScheduleStore,
  type StoredSchedule,
} from '../../schedule/schedule-store.ts';
import type { MemoryOutboxWriter } from './memory-outbox-writer.ts';
import { MemoryTransaction } from './memory-transaction.ts';

/** What a store must not leave out; the simulator leaves them out one by one. */
export interface ScheduleGuards {
  /** A change is taken only from a process that has seen the schedule as it is. */
  readonly comparesVersion: boolean;
  /** Tasks and advance are one transaction. */
  readonly isAtomic: boolean;
  /** A schedule that is paused is never due. */
  readonly heedsPause: boolean;
}

const SCHEDULE_GUARDS: ScheduleGuards = {
  comparesVersion: true,
  isAtomic: true,
  heedsPause: true,
};

export interface MemoryScheduleOptions {
  readonly clock: Pick<Clock, 'now'>;
  readonly writer: Pick<MemoryOutboxWriter, 'write'>;
  readonly guards?: Partial<ScheduleGuards>;
  /** Called with every change, in the order in which they are committed. */
  readonly journal?: (change: ScheduleChange) => void;
}

/** Schedules in RAM. A change is one synchronous commit at its end, and locks its row until then. */
export class MemoryScheduleStore {
  readonly rows: Map<string, StoredSchedule> = new Map();
  readonly #options: MemoryScheduleOptions;
  readonly #guards: ScheduleGuards;

  constructor(options: MemoryScheduleOptions) {
    this.#options = options;
    this.#guards = { ...SCHEDULE_GUARDS, ...options.guards };
  }

  /** The store as one process reaches it. */
  through(faultPoint: FaultPoint = noFaults): ScheduleStore {
    return {
      clock: async () => this.#clock(),
      due: async limit => this.#due(limit),
      read: async name => this.rows.get(name) ?? null,
      list: async (after, limit) =>
        [...this.rows.values()]
          .filter(({ name }) => name > after)
          .toSorted((a, b) => (a.name < b.name ? -1 : 1))
          .slice(0, limit),
      change: change => this.#change(change, faultPoint),
      declare: async (own, ttlMs) => this.#declare(own, ttlMs),
      prune: async ageMs => {
        const before = this.#nowMs - ageMs;
        for (const { name, declaredUntilMs } of this.rows.values())
          if (declaredUntilMs !== null && declaredUntilMs < before) this.rows.delete(name);
      },
    };
  }

  get #nowMs(): number {
    return Math.floor(this.#options.clock.now());
  }

  #active(): readonly StoredSchedule[] {
    const nowMs = this.#nowMs;
    return [...this.rows.values()].filter(
      ({ isPaused, declaredUntilMs, dueMs }) =>
        !(isPaused && this.#guards.heedsPause) &&
        dueMs !== null &&
        (declaredUntilMs === null || declaredUntilMs > nowMs),
    );
  }

  #clock(): ScheduleClock {
    const dues = this.#active().map(({ dueMs }) => dueMs ?? Infinity);
    return { nowMs: this.#nowMs, dueMs: dues.length === 0 ? null : Math.min(...dues) };
  }

  #due(limit: number): readonly StoredSchedule[] {
    return this.#active()
      .filter(({ dueMs }) => (dueMs ?? Infinity) <= this.#nowMs)
      .toSorted((a, b) => (a.dueMs ?? 0) - (b.dueMs ?? 0))
      .slice(0, limit);
  }

  async #change(change: ScheduleChange, faultPoint: FaultPoint): Promise<'ok' | 'stale'> {
    if (!this.#isAsSeen(change)) return 'stale';
    await faultPoint('schedule.locked-not-written');
    const tx = new MemoryTransaction();
    await this.#options.writer.write(tx, change.tasks);
    if (!this.#guards.isAtomic) tx.commit();
    await faultPoint('schedule.written-not-advanced');
    await faultPoint('schedule.advanced-not-committed');
    // SQL holds the row from the first comparison on; here it is compared where it is written.
    if (!this.#isAsSeen(change)) {
      if (this.#guards.isAtomic) tx.rollback();
      return 'stale';
    }
    const { name, to } = change;
    if (to === null) this.rows.delete(name);
    else this.rows.set(name, { ...to, name, declaredUntilMs: this.#declaredUntilMs(name, to) });
    if (this.#guards.isAtomic) tx.commit();
    this.#options.journal?.(change);
    return 'ok';
  }

  /** What a process has vouched for meanwhile is not taken back. */
  #declaredUntilMs(name: string, to: Omit<StoredSchedule, 'name'>): number | null {
    const stored = this.rows.get(name)?.declaredUntilMs ?? null;
    return to.declaredUntilMs === null ? null : Math.max(to.declaredUntilMs, stored ?? 0);
  }

  #isAsSeen({ name, seen, to }: ScheduleChange): boolean {
    const row = this.rows.get(name);
    if (seen === null) return row === undefined && to !== null && this.rows.size < MAX_SCHEDULES;
    if (!this.#guards.comparesVersion) return row !== undefined;
    return row?.version === seen;
  }

  #declare(own: readonly Declared[], ttlMs: number): readonly string[] {
    const found: string[] = [];
    for (const { name, digest } of own) {
      const row = this.rows.get(name);
      if (row?.digest !== digest || row.origin !== 'config') continue;
      this.rows.set(name, { ...row, declaredUntilMs: this.#nowMs + ttlMs });
      found.push(name);
    }
    return found;
  }
}
