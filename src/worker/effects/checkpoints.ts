import { createHash } from 'node:crypto';
import { outlastError } from '../../errors/error.ts';
import type { CheckpointKey, CheckpointStore } from '../../ledger/checkpoint-store.ts';
import type { BegunTask, Ledger, RunRef, StepStatus } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { toBytes, toText } from '../../task/json.ts';
import { runKey } from '../run/claim-key.ts';

/** A checkpoint up to this size is stored in the ledger itself. */
const INLINE_BYTES = 262_144;
/** JSON never begins with this byte: a reference cannot be mistaken for progress, nor progress for a reference. */
const MARK = 0x00;

/** What the ledger stores for a large checkpoint. It holds no address, so a forged one cannot point a reader anywhere. */
interface Reference {
  readonly epoch: number;
  readonly seq: number;
  readonly size: number;
  readonly digest: string;
}

export interface CheckpointsParts {
  readonly ledger: Pick<Ledger, 'checkpoint'>;
  /** Null: a checkpoint that is too large for the ledger is refused. */
  readonly store: CheckpointStore | null;
  readonly maxBytes: number;
  readonly runtime: Pick<Runtime, 'faultPoint' | 'log'>;
  /** @default 262144 */
  readonly inlineBytes?: number;
}

/**
 * The progress of runs, whatever its size. A large checkpoint is stored first and referenced then, so the ledger never
 * references one that is incomplete; the checkpoint it referenced before is deleted afterwards.
 */
export class Checkpoints implements Pick<Ledger, 'checkpoint'> {
  readonly #parts: CheckpointsParts;
  readonly #inlineBytes: number;
  readonly #maxBytes: number;
  /** By run: the stored checkpoint that the ledger references. */
  readonly #current = new Map<string, CheckpointKey>();

  constructor(parts: CheckpointsParts) {
    this.#parts = parts;
    this.#inlineBytes = parts.inlineBytes ?? INLINE_BYTES;
    this.#maxBytes = parts.store === null ? this.#inlineBytes : parts.maxBytes;
  }

  async checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const { ledger, store } = this.#parts;
    if (data.length > this.#maxBytes) throw tooLarge(data.length, this.#maxBytes);
    if (data.length <= this.#inlineBytes || store === null) {
      const status = await ledger.checkpoint(run, seq, data);
      if (status === 'ok') await this.#replace(run, null);
      return status;
    }
    const key = { taskId: run.id, epoch: run.epoch, seq };
    await store.write(key, data);
    await this.#parts.runtime.faultPoint('worker.checkpoint-kept-not-reported');
    const status = await ledger.checkpoint(run, seq, referenceTo(key, data));
    if (status === 'ok') await this.#replace(run, key);
    else await this.#remove(key);
    return status;
  }

  /**
   * The task with its progress loaded. Damaged or lost progress counts as none: the run starts from the beginning, and logs
   * so. Throws `ERR_FENCE_STALE` when it is gone because another run owns the task and has moved on.
   */
  async restore(task: BegunTask): Promise<BegunTask> {
    const { store } = this.#parts;
    if (task.checkpoint?.[0] !== MARK) return task;
    const reference = JSON.parse(toText(task.checkpoint.subarray(1))) as Reference;
    const key = { taskId: task.id, epoch: reference.epoch, seq: reference.seq };
    const data = store === null ? null : await store.read(key, reference.size);
    if (data !== null && digestOf(data) === reference.digest) {
      this.#current.set(runKey(task), key);
      return { ...task, checkpoint: data };
    }
    await this.#judgeLoss(task, task.checkpoint, reference);
    return { ...task, checkpoint: null };
  }

  /** Writes the same reference again under this run: the ledger accepts it only from the owner of the task. */
  async #judgeLoss(task: BegunTask, bytes: Uint8Array, { seq, size }: Reference): Promise<void> {
    const { ledger, runtime } = this.#parts;
    if ((await ledger.checkpoint(task, task.checkpointSeq, bytes)) !== 'ok') throw stale(task);
    const lost = 'a checkpoint is lost or damaged; the run begins without it';
    runtime.log.error({ task: task.id, seq, size }, lost);
  }

  /** The run is over here. Deletes progress that its task does not need again; a task that may come back keeps it. */
  forget(run: RunRef, isTaskDone: boolean): Promise<void> | undefined {
    // Hardly any task has a checkpoint outside the ledger.
    if (this.#current.size === 0) return undefined;
    if (isTaskDone) return this.#replace(run, null);
    this.#current.delete(runKey(run));
    return undefined;
  }

  async #replace(run: RunRef, next: CheckpointKey | null): Promise<void> {
    const before = this.#current.get(runKey(run));
    if (next === null) this.#current.delete(runKey(run));
    else this.#current.set(runKey(run), next);
    if (before) await this.#remove(before);
  }

  /** A resurrector removes later what cannot be removed now. */
  async #remove(key: CheckpointKey): Promise<void> {
    const { store, runtime } = this.#parts;
    await store?.remove(key).catch((error: unknown) => {
      runtime.log.debug({ error, task: key.taskId }, 'an old checkpoint could not be removed');
    });
  }
}

function referenceTo({ epoch, seq }: CheckpointKey, data: Uint8Array): Uint8Array {
  const reference: Reference = { epoch, seq, size: data.length, digest: digestOf(data) };
  const text = toBytes(JSON.stringify(reference));
  const bytes = new Uint8Array(text.length + 1);
  bytes[0] = MARK;
  bytes.set(text, 1);
  return bytes;
}

const digestOf = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');

function stale({ id, epoch }: RunRef): Error {
  return outlastError('ERR_FENCE_STALE', {
    message: `another run owns ${id}`,
    hint: 'Nothing to do: this run must end without writing.',
    fields: { id, epoch },
  });
}

function tooLarge(bytes: number, maxBytes: number): Error {
  return outlastError('ERR_CHECKPOINT_TOO_LARGE', {
    message: `a checkpoint of ${bytes} bytes is larger than ${maxBytes}`,
    hint: 'Keep the data in your own tables and checkpoint a reference to it, or raise worker.maxCheckpointBytes.',
    fields: { bytes, maxBytes },
  });
}
