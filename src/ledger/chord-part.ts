import type { ChordSize } from '../task/envelope.ts';
import type { Reply, ReportedEnd } from '../wire/reply.ts';

export interface ChordPart {
  readonly groupId: string;
  readonly index: number;
  /** How many parts the chord has; null: only Celery's result backend knows it, where it is counted. */
  readonly size: number | null;
  readonly taskId: string;
  /** The id of the chord's body, if its sender chose one: its waiters can then learn that it will not come. */
  readonly bodyId?: string;
  /** JSON text; null: the task ended otherwise than done. */
  readonly result: string | null;
  /** Why there is no result, if the reporter knows it. */
  readonly error?: PartError;
  /** The result comes from a signed task of our own workers. Left out: any sender may have chosen it. */
  readonly isSigned?: true;
}

/** Celery's result backend, where the ledger is elsewhere: it knows the size of chords that are in Python's form. */
export interface CeleryChords {
  /** Before the headers of these chords are sent: Celery's workers look for the sizes there. */
  readonly announce: (chords: readonly ChordSize[]) => Promise<void>;
  readonly join: (part: ChordPart) => Promise<ChordAnswer>;
  /** Stores how tasks ended that are never sent, for the callers that wait there. */
  readonly tell: (ids: readonly string[], told: ReportedEnd, of: string) => Promise<void>;
  /** Stores answers for callers that do not wait at a queue but there. */
  readonly store: (replies: readonly Reply[]) => Promise<void>;
}

/** The error of a part, in texts of bounded length. */
interface PartError {
  readonly type: string;
  readonly message: string;
  readonly traceback: string;
}

/**
 * `complete`: all parts are there; the results in their order, and whether each comes from a signed task. `failed`: this
 * part ended otherwise than done, and was not repaired since; `taskId` if another part did, which was not counted here, and
 * its `cause`.
 * `open`: neither.
 */
export type ChordAnswer =
  | { readonly status: 'open' }
  | { readonly status: 'failed'; readonly taskId?: string; readonly cause?: PartError }
  | {
      readonly status: 'complete';
      readonly results: readonly string[];
      readonly isSigned: boolean;
    };
