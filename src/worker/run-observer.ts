import type { BegunTask, TaskRef } from '../ledger/ledger.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Settlement } from './run/settlement.ts';

/** Is called for every event in the life of a task. An implementation returns at once and never throws. */
export interface RunObserver {
  /** A message that is not due yet: the ledger has it now. */
  parked(envelope: Envelope): void;
  /** A message of a task that the ledger has already: it was turned away. */
  held(envelope: Envelope): void;
  expired(ref: TaskRef): void;
  /** A run is about to start. Null or false: it may. True: it was revoked, and the ledger knows that. Never rejects. */
  starting(task: BegunTask): Promise<boolean> | null;
  started(task: BegunTask): void;
  /** A run has ended, and the ledger has accepted its settlement. */
  settled(task: BegunTask, settlement: Settlement, ranMs: number): void;
  /** A run has ended and did not own its task any more: nothing was written. */
  lost(task: BegunTask): void;
}
