/** The fences and steps of one database whose ledger is elsewhere, as a housekeeper sees them. */
export interface FenceRows {
  /** Fences whose task is to be asked about now. */
  due(limit: number): Promise<readonly DueFence[]>;
  /** Their tasks are not over: they are asked about again, the older ones later. */
  later(ids: readonly string[]): Promise<void>;
  /** Their tasks are over, or unknown: they are asked about once more after so long. */
  over(ids: readonly string[], keepMs: number): Promise<void>;
  /** Forgets those that were over the last time as well, with their steps; steps of a key live on for their time. */
  forget(ids: readonly string[]): Promise<void>;
  /** Forgets up to `limit` steps of keys whose time is over. Returns how many. */
  prune(limit: number): Promise<number>;
}

export interface DueFence {
  readonly id: string;
  /** The ledger said so the last time. */
  readonly isOver: boolean;
}
