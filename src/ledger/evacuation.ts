import type { Envelope } from '../task/envelope.ts';
import type { ErrorRecord, StepStatus } from './ledger.ts';

/** A task of a ledger that is about to be left. */
export interface EvacuatedTask {
  readonly envelope: Envelope;
  readonly epoch: number;
  /** Time until it may be begun. */
  readonly dueInMs: number;
  /** Null: it is waiting. */
  readonly death: { readonly reason: string; readonly error: ErrorRecord } | null;
}

/** The way out of a ledger: waiting tasks and dead ones. Running tasks must have come back before. */
export interface Evacuation {
  /** Up to `limit` of them, in any order. */
  list(limit: number): Promise<readonly EvacuatedTask[]>;
  /** The task is stored elsewhere now: forgets it, unless it was begun or changed since it was listed. */
  end(id: string, epoch: number): Promise<StepStatus>;
}
