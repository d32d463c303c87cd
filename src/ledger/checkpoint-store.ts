/**
 * Keeps checkpoints that are too large for the ledger. Each has its own name, so a run that lost its task cannot overwrite
 * another run's progress. The ledger records which one counts, and only after it is stored.
 */
export interface CheckpointStore {
  /** Resolves when the bytes would survive a crash. */
  write(key: CheckpointKey, data: Uint8Array): Promise<void>;
  /** Null: it does not exist, or does not have the `size` bytes that were written. */
  read(key: CheckpointKey, size: number): Promise<Uint8Array | null>;
  remove(key: CheckpointKey): Promise<void>;
  /** Checkpoints older than `ageMs`, in the store's own order, starting behind `after`. */
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
