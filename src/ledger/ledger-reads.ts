import type {
  DeadLetterDetails,
  DeadLetterPage,
  Failing,
  LetterPageRequest,
  TaskDetails,
} from './dead-letter.ts';
import type { TaskState } from './ledger.ts';
import type { OpenChords } from './open-chord.ts';
import type { ObjectiveCounts, TaskTotals } from './tallies.ts';
import type { Slice, TaskRecordView, WalkRequest } from './task-line.ts';

/** The read-only view of a ledger for people. If a task has redacted copies, they are shown instead of its arguments. */
export interface LedgerReads {
  sample(top: number): Promise<LedgerSample>;
  /** Tasks that ended as dead letters. */
  listDead(page: LetterPageRequest): Promise<DeadLetterPage>;
  countDead(): Promise<number>;
  showDead(id: string): Promise<DeadLetterDetails | null>;
  inspect(id: string): Promise<TaskDetails | null>;
  /** The same with its bytes and result, for people. */
  view(id: string): Promise<TaskRecordView | null>;
  /**
   * A slice of one of its lists: waiting tasks queue by queue, tasks that are over in the order in which they are forgotten,
   * the last first. Nothing is read but the slice. A ledger in Redis lists only the newest of those that are over.
   */
  walk(request: WalkRequest): Promise<Slice>;
  /** How many tasks of these queues were sent for a later time and never begun. Left out: senders do not write here. */
  countScheduled?(queues: readonly string[]): Promise<number>;
  /** The states of these tasks, in their order. Null: the task is unknown. */
  states(ids: readonly string[]): Promise<readonly (TaskState | null)[]>;
  /** The newest tasks, newest first. */
  recent(limit: number): Promise<readonly TaskDetails[]>;
  /** Those of these tasks that are not over: for a live view. */
  moments(ids: readonly string[]): Promise<readonly TaskMoment[]>;
  /** Chords that wait for parts; up to `limit` of them, oldest first. */
  openChords(limit: number): Promise<OpenChords>;
  /** What happened to tasks since the beginning, by name and queue; pruning takes nothing from it. */
  totals(): Promise<readonly TaskTotals[]>;
  /** What the objectives of tasks are, and what was counted for them in the last three days; one round trip. */
  objectives(): Promise<ObjectiveCounts>;
}

/** What changes while a task waits and runs. */
export interface TaskMoment {
  readonly id: string;
  /** Names the last death, for a revival. */
  readonly version: number;
  /** The operating-system process that runs it, as its supervisor calls it. */
  readonly process: string | null;
  readonly checkpoint: Uint8Array | null;
  /** The instant from which it may be begun. */
  readonly dueMs: number;
}

/** Figures of one moment. Ended tasks that were deleted since are counted. */
export interface LedgerSample {
  /** `expired`: never begun, because their time was over. `purged`: dead, and deleted since. Neither is also `cancelled`. */
  readonly tasks: Readonly<Record<TaskState | 'expired' | 'purged', number>>;
  /** Queues in which something waits or runs. */
  readonly queues: readonly {
    readonly queue: string;
    readonly waiting: number;
    readonly running: number;
  }[];
  /** Failures and crashes of tasks that are not done. */
  readonly topFailing: readonly Failing[];
  /** Incarnations that are open and within their lease. */
  readonly workers: number;
}
