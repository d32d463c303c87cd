import type { ErrorRecord, TaskState } from '../ledger/ledger.ts';

/** Reads outcomes. They are written by the ledger's terminal steps, in the same statement. */
export interface ResultStore {
  read(id: string): Promise<ResultRecord>;
}

/** `pending`: committed, in an outbox. `waiting`: where workers look. `unknown`: this id is not known (any more). */
export type LifeState = TaskState | 'pending' | 'unknown';

export interface ResultRecord {
  readonly state: LifeState;
  /** How a terminal task ended. */
  readonly ending: Ending | null;
  /** The JSON text of the handler's value. */
  readonly result: Uint8Array | null;
  readonly error: ErrorRecord | null;
  readonly why: string | null;
  /** It was never sent, because the task with this id ended like that. Left out: it ended itself. */
  readonly of?: string;
}

/** How a task that is over ended. */
export type Ending = 'done' | 'discarded' | 'dead' | 'cancelled' | 'expired';
