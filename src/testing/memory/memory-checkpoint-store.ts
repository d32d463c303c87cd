import type { CheckpointKey, CheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { Clock } from '../../runtime/runtime.ts';

interface Kept extends CheckpointKey {
  readonly data: Uint8Array;
  readonly atMs: number;
}

/** Large checkpoints in RAM. */
export class MemoryCheckpointStore implements CheckpointStore {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #kept = new Map<string, Kept>();

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  async write(key: CheckpointKey, data: Uint8Array): Promise<void> {
    this.#kept.set(nameOf(key), { ...key, data: data.slice(), atMs: this.#clock.now() });
  }

  async read(key: CheckpointKey, size: number): Promise<Uint8Array | null> {
    const data = this.#kept.get(nameOf(key))?.data;
    return data?.length === size ? data.slice() : null;
  }

  async remove(key: CheckpointKey): Promise<void> {
    this.#kept.delete(nameOf(key));
  }

  async list(
    ageMs: number,
    limit: number,
    after: CheckpointKey | null,
  ): Promise<readonly CheckpointKey[]> {
    const behind = after === null ? '' : nameOf(after);
    const old = [...this.#kept].filter(
      ([name, { atMs }]) => name > behind && atMs < this.#clock.now() - ageMs,
    );
    return old
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit)
      .map(([, { taskId, epoch, seq }]) => ({ taskId, epoch, seq }));
  }
}

const nameOf = ({ taskId, epoch, seq }: CheckpointKey): string => `${taskId} ${epoch} ${seq}`;
