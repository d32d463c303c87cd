import type { EvacuatedTask } from './evacuation.ts';

/** A store that has served beside a database. */
export interface ServedStore {
  readonly role: 'broker' | 'ledger';
  /** Its address without a password; `database`: the database itself. */
  readonly store: string;
}

/** What is still in a ledger. */
export interface LeftBehind {
  /** Waiting or running ones. */
  readonly tasks: number;
  readonly dead: number;
  readonly followUps: number;
  /** Open ones. */
  readonly chords: number;
}

/** A database's record of the tiers it has served in. */
export interface TierMemory {
  note(stores: readonly ServedStore[]): Promise<void>;
  /** Every store that has served, and was not forgotten since; the latest one last. */
  served(): Promise<readonly ServedStore[]>;
  /** Called when nothing is left in it. */
  forget(store: ServedStore): Promise<void>;
  /** What the ledger in this database has, whether it is the ledger now or not. */
  left(): Promise<LeftBehind>;
}

/** Also the way into its outbox for tasks of another tier. */
export interface TierStore extends TierMemory {
  /** Into the outbox, dead ones among its dead letters; each once per move, however often the move is repeated. */
  moveIn(tasks: readonly EvacuatedTask[]): Promise<void>;
  /** The move is complete: from now on the same ids may come again. */
  endMove(): Promise<void>;
}

/** False: its outbox takes no tasks of another tier. */
export const takesTasks = (tiers: TierMemory): tiers is TierStore => 'moveIn' in tiers;
