import type { NewTask } from '../outbox/outbox-writer.ts';

/** `config`: it lives as long as a running process has it in its configuration. `api`: until it is removed. */
export type ScheduleOrigin = 'config' | 'api';

/** A schedule as a database has it. Times are milliseconds by the clock of the database. */
export interface StoredSchedule {
  readonly name: string;
  /** Drawn anew by every change. */
  readonly version: string;
  readonly origin: ScheduleOrigin;
  readonly isPaused: boolean;
  /** JSON in ASCII; see `Definition`. */
  readonly definition: string;
  /** SHA-256 of the definition, as hexadecimal text. */
  readonly digest: string;
  /** Proves that the holder of a signing key has written the definition; null: there was no key. */
  readonly seal: string | null;
  /** The first slot that has neither fired nor been skipped; null: there is no further one. */
  readonly nextSlotMs: number | null;
  /** When it is looked at next. */
  readonly dueMs: number | null;
  readonly lastSlotMs: number | null;
  readonly lastTask: string | null;
  readonly fired: number;
  /** Slots that were skipped; at least that many where there were very many. */
  readonly missed: number;
  readonly error: string | null;
  /** Null for those of the API. */
  readonly declaredUntilMs: number | null;
  /** Until then another running process has it otherwise in its configuration. */
  readonly disputedUntilMs: number | null;
}

/** One step. `seen`: the version that the decision is based on; null: there is no such schedule. `to`: null deletes it. */
export interface ScheduleChange {
  readonly name: string;
  readonly seen: string | null;
  readonly to: Omit<StoredSchedule, 'name'> | null;
  readonly tasks: readonly NewTask[];
}

/** A name and the digest of its definition. */
export interface Declared {
  readonly name: string;
  readonly digest: string;
}

export interface ScheduleClock {
  readonly nowMs: number;
  /** When the next schedule is due; null: none will be. */
  readonly dueMs: number | null;
}

/** Most schedules of one database. */
export const MAX_SCHEDULES = 10_000;

/** Schedules, in the database of the outbox: an advance and the tasks of its slots are one transaction there. */
export interface ScheduleStore {
  /** The clock of the database: nothing else decides what is due. */
  clock(): Promise<ScheduleClock>;
  /** Those that are due, the longest first. Nothing is locked. */
  due(limit: number): Promise<readonly StoredSchedule[]>;
  read(name: string): Promise<StoredSchedule | null>;
  list(after: string, limit: number): Promise<readonly StoredSchedule[]>;
  /**
   * Writes tasks and the new state in one transaction, if the schedule is as it was seen. `stale`: it is not, or another
   * process is changing it; nothing was written. A task whose id was sent before is a copy and is left out.
   */
  change(change: ScheduleChange): Promise<'ok' | 'stale'>;
  /** Prolongs those that are stored just so; returns their names. */
  declare(own: readonly Declared[], ttlMs: number, refreshMs: number): Promise<readonly string[]>;
  /** Deletes those of configurations that no process has had for so long. */
  prune(ageMs: number): Promise<void>;
}
