import type {
  LetterPageRequest,
  Failing,
  DeadLetterPage,
  DeadLetterDetails,
  TaskDetails,
} from '../ledger/dead-letter.ts';
import type { TaskTotals } from '../ledger/tallies.ts';
import type { OpenChord } from '../ledger/open-chord.ts';

/** What the CLI and the dashboard show, composed from outbox and ledger. Reads only. */
export interface ReadModel {
  stats(top: number): Promise<Stats>;
  /** Every queue that holds tasks, has a consumer, or is paused. */
  queues(): Promise<Stats['queues']>;
  /** Letters of relay and worker in one list. */
  listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage>;
  showDeadLetter(id: string): Promise<DeadLetterDetails | null>;
  inspect(id: string): Promise<TaskDetails | null>;
  /** Newest first; for the live view of `dev`. */
  recent(limit: number): Promise<readonly TaskDetails[]>;
}

/** How many tasks wait, run, are done and are dead, and how old the oldest is. */
export interface Stats {
  /** Due now: rows of the outbox, and tasks of a ledger in the same database. */
  readonly queueDepth: number;
  /** Not due yet for the first time: a later `eta`. */
  readonly scheduled: number;
  /** Failed before, and waits for the next attempt. */
  readonly backoff: number;
  /** Rows that a relay has put off without a failure: an outage, or a limit. */
  readonly deferred: number;
  /** Dead letters of both kinds, and of each. */
  readonly dlqCount: number;
  readonly dlq: { readonly outbox: number; readonly worker: number };
  /** Since the first moment at which the oldest was due; retries and outages change nothing about it. */
  readonly oldestPendingSeconds: number | null;
  readonly outbox: {
    readonly pending: number;
    readonly claimed: number;
    readonly sent: number;
    /** Rows in a format this version does not know: they wait for a newer relay. */
    readonly unsupported: number;
  };
  /** `expired`: never begun, because `expires` or `deadline` had passed. `purged`: dead tasks that an operator deleted. */
  readonly tasks: Readonly<
    Record<'waiting' | 'running' | 'done' | 'dead' | 'cancelled' | 'expired' | 'purged', number>
  >;
  /** Queues with tasks, and paused ones. `pending` are rows of the outbox; estimated if there are more than 100,000. */
  readonly queues: readonly {
    readonly queue: string;
    readonly pending: number;
    readonly waiting: number;
    readonly running: number;
    /** Workers take nothing from it. */
    readonly isPaused: boolean;
    /** Workers that take from it, or would if it were not paused. */
    readonly consumers: number;
  }[];
  readonly topFailing: readonly Failing[];
  /** What happened to tasks since the beginning, by name and queue; pruning and restarts take nothing from it. */
  readonly totals: readonly TaskTotals[];
  readonly workers: number;
  /** Chords that wait for tasks of their headers; the oldest of them. */
  readonly chords: {
    readonly open: number;
    readonly oldestSeconds: number | null;
    readonly oldest: readonly OpenChord[];
  };
}
