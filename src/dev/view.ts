import type { LifeState } from '../result/result-store.ts';

/** What the page shows, as it is sent to the browser. Types only: browser and server share them. */
export interface Snapshot {
  /** True after Ctrl-C: runs are being finished, nothing new begins. */
  readonly isDraining: boolean;
  readonly database: string;
  readonly counts: Counts;
  readonly workers: readonly WorkerView[];
  /** Newest first. */
  readonly tasks: readonly TaskView[];
}

export interface Counts {
  readonly pending: number;
  readonly waiting: number;
  readonly running: number;
  readonly done: number;
  readonly dead: number;
}

/** One child process of the supervisor. */
export interface WorkerView {
  readonly pid: number;
  /** Tasks it is running right now, of those shown. */
  readonly running: number;
}

export interface TaskView {
  readonly id: string;
  readonly name: string;
  /** What the sample shop knows about it, else null. */
  readonly title: string | null;
  readonly receipts: number | null;
  readonly state: LifeState;
  readonly epoch: number;
  readonly crashes: number;
  readonly failures: number;
  readonly stations: readonly Station[];
  readonly progress: ProgressView | null;
  /** Identifies the death that a retry would undo; null unless it is dead. */
  readonly deadVersion: number | null;
}

/** `next`: not reached yet. `live`: where the task is now. */
export type Tone = 'plain' | 'live' | 'good' | 'warn' | 'bad' | 'next';

/** One step in the history of a task. */
export interface Station {
  readonly label: string;
  /** Null for a station that is not reached yet. */
  readonly at: string | null;
  readonly detail: string | null;
  readonly tone: Tone;
  /** When it will happen, in milliseconds since the epoch. */
  readonly dueAt: number | null;
}

/** The last checkpoint of a task that is not over. */
export type ProgressView =
  | { readonly kind: 'steps'; readonly step: number; readonly of: number; readonly label: string }
  | { readonly kind: 'text'; readonly text: string };
