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

type Param = string | number | Uint8Array;

/** A table of the parts of checkpoints, in the statements of its dialect. */
export interface PartTable<Statement> {
  /** The most bytes that one statement carries. */
  readonly partBytes: number;
  readonly statements: {
    readonly checkpointWrite: Statement;
    readonly checkpointRead: Statement;
    readonly checkpointRemove: Statement;
    readonly checkpointList: Statement;
  };
  rows(
    statement: Statement,
    params: readonly Param[],
  ): Promise<readonly Readonly<Record<string, unknown>>[]>;
  change(statement: Statement, params: readonly Param[]): Promise<unknown>;
}

/** Large checkpoints in a database, in parts small enough for every connection. */
export class PartedCheckpointStore<Statement> implements CheckpointStore {
  readonly #table: PartTable<Statement>;

  constructor(table: PartTable<Statement>) {
    this.#table = table;
  }

  async write(key: CheckpointKey, data: Uint8Array): Promise<void> {
    const { partBytes, statements } = this.#table;
    for (let part = 0; part * partBytes < data.length; part++) {
      const bytes = data.subarray(part * partBytes, (part + 1) * partBytes);
      await this.#table.change(statements.checkpointWrite, [...columns(key), part, bytes]);
    }
  }

  async read(key: CheckpointKey, size: number): Promise<Uint8Array | null> {
    const { partBytes, statements } = this.#table;
    const parts: Uint8Array[] = [];
    for (let part = 0; part * partBytes < size; part++) {
      const [row] = await this.#table.rows(statements.checkpointRead, [...columns(key), part]);
      if (!row) return null;
      parts.push(row['data'] as Uint8Array);
    }
    const data = Buffer.concat(parts);
    return data.length === size ? data : null;
  }

  async remove(key: CheckpointKey): Promise<void> {
    await this.#table.change(this.#table.statements.checkpointRemove, columns(key));
  }

  async list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]> {
    const behind = after === null ? ['', 0, 0] : columns(after);
    const { statements } = this.#table;
    const rows = await this.#table.rows(statements.checkpointList, [ageMs, ...behind, limit]);
    return rows.map(row => ({
      taskId: row['task_id'] as string,
      epoch: Number(row['epoch']),
      seq: Number(row['seq']),
    }));
  }
}

const columns = ({ taskId, epoch, seq }: CheckpointKey): readonly (string | number)[] => [
  taskId,
  epoch,
  seq,
];
