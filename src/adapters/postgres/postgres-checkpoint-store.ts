import type { CheckpointKey, CheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { SqlDatabase } from './sql-database.ts';
import { SQL } from './sql.generated.ts';

/** One statement never carries more: not every connection takes a parameter of any size. */
const PART_BYTES = 4_194_304;

/** Large checkpoints in the database of the outbox. */
export class PostgresCheckpointStore implements CheckpointStore {
  readonly #db: SqlDatabase;

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async write(key: CheckpointKey, data: Uint8Array): Promise<void> {
    for (let part = 0; part * PART_BYTES < data.length; part++) {
      const bytes = data.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      await this.#db.query(SQL.checkpointWrite, [...columns(key), part, bytes]);
    }
  }

  async read(key: CheckpointKey, size: number): Promise<Uint8Array | null> {
    const parts: Uint8Array[] = [];
    for (let part = 0; part * PART_BYTES < size; part++) {
      const row = (await this.#db.query(SQL.checkpointRead, [...columns(key), part]))[0];
      if (!row) return null;
      parts.push(row['data'] as Uint8Array);
    }
    const data = Buffer.concat(parts);
    return data.length === size ? data : null;
  }

  async remove(key: CheckpointKey): Promise<void> {
    await this.#db.query(SQL.checkpointRemove, columns(key));
  }

  async list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]> {
    const behind = after === null ? ['', 0, 0] : columns(after);
    const rows = await this.#db.query(SQL.checkpointList, [ageMs, ...behind, limit]);
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
