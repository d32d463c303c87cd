import type { BegunTask, TaskRef } from '../ledger/ledger.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Settlement } from './settlement.ts';

/** Is told what happens to tasks, where it happens. Whoever implements it returns at once and never throws. */
export interface RunObserver {
  /** A message whose time has not come: the ledger has it now. */
  parked(envelope: Envelope): void;
  /** A message of a task that the ledger has already: it was turned away. */
  held(envelope: Envelope): void;
  expired(ref: TaskRef): void;
  started(task: BegunTask): void;
  /** A run has ended, and the ledger has taken what it ended with. */
  settled(task: BegunTask, settlement: Settlement, ranMs: number): void;
  /** A run has ended and was not the rightful one any more: nothing was written. */
  lost(task: BegunTask): void;
}
