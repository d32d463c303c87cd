/**
 * Keeps checkpoints that are too large for the ledger. Each has a name of its own, so a run that lost its task overwrites
 * nobody's progress; the ledger says which one counts, and says so only after it is kept.
 */
export interface CheckpointStore {
  /** Resolves when the bytes would survive a crash. */
  write(key: CheckpointKey, data: Uint8Array): Promise<void>;
  /** Null: it is not there, or not the `size` bytes that were written. */
  read(key: CheckpointKey, size: number): Promise<Uint8Array | null>;
  remove(key: CheckpointKey): Promise<void>;
  /** Those written longer ago than `ageMs`, in an order of the store's own, behind `after`. */
  list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]>;
}

export interface CheckpointKey {
  readonly taskId: string;
  readonly epoch: number;
  readonly seq: number;
}
