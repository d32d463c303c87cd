import type { CheckpointKey, CheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { MysqlDatabase } from './mysql-database.ts';
import { SQL } from './sql.generated.ts';

/** Bytes travel as two digits each, and the smallest `max_allowed_packet` that is still found is 1 MiB. */
const PART_BYTES = 393_216;

/** Large checkpoints in the database of the outbox. */
export class MysqlCheckpointStore implements CheckpointStore {
  readonly #db: MysqlDatabase;

  constructor(db: MysqlDatabase) {
    this.#db = db;
  }

  async write(key: CheckpointKey, data: Uint8Array): Promise<void> {
    for (let part = 0; part * PART_BYTES < data.length; part++) {
      const bytes = data.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      await this.#db.change(SQL.checkpointWrite, [...columns(key), part, bytes]);
    }
  }

  async read(key: CheckpointKey, size: number): Promise<Uint8Array | null> {
    const parts: Uint8Array[] = [];
    for (let part = 0; part * PART_BYTES < size; part++) {
      const [row] = await this.#db.rows(SQL.checkpointRead, [...columns(key), part]);
      if (!row) return null;
      parts.push(row['data'] as Uint8Array);
    }
    const data = Buffer.concat(parts);
    return data.length === size ? data : null;
  }

  async remove(key: CheckpointKey): Promise<void> {
    await this.#db.change(SQL.checkpointRemove, columns(key));
  }

  async list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]> {
    const behind = after === null ? ['', 0, 0] : columns(after);
    const rows = await this.#db.rows(SQL.checkpointList, [ageMs, ...behind, limit]);
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
