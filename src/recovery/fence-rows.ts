/** The fences and steps of one database whose ledger is elsewhere, for the housekeeper. */
export interface FenceRows {
  /** Fences whose task is to be looked up now. */
  due(limit: number): Promise<readonly DueFence[]>;
  /** Their tasks are not over: they are looked up again, older ones less often. */
  later(ids: readonly string[]): Promise<void>;
  /** Their tasks are over, or unknown: they are looked up once more after `keepMs`. */
  over(ids: readonly string[], keepMs: number): Promise<void>;
  /** Deletes those that were over the last time as well, with their steps; steps of a key stay until they expire. */
  forget(ids: readonly string[]): Promise<void>;
  /** Deletes up to `limit` expired steps of keys. Returns how many. */
  prune(limit: number): Promise<number>;
  /** An operator has reset this key: its effects run anew from now on. False: there were none. */
  forgetKey(key: string): Promise<boolean>;
}

export interface DueFence {
  readonly id: string;
  /** The ledger reported it as over the last time. */
  readonly isOver: boolean;
}
