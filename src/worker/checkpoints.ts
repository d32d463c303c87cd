import { createHash } from 'node:crypto';
import { outlastError } from '../errors/error.ts';
import type { CheckpointKey, CheckpointStore } from '../ledger/checkpoint-store.ts';
import type { BegunTask, Ledger, RunRef, StepStatus } from '../ledger/ledger.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { toBytes, toText } from '../task/json.ts';
import { runKey } from './run-key.ts';

/** Up to this a checkpoint is in the ledger itself. */
const INLINE_BYTES = 262_144;
/** JSON never begins so: a reference cannot be taken for progress, nor progress for a reference. */
const MARK = 0x00;

/** What the ledger keeps of a large checkpoint: never a place, so that nobody is led anywhere by it. */
interface Reference {
  readonly epoch: number;
  readonly seq: number;
  readonly size: number;
  readonly digest: string;
}

export interface CheckpointsParts {
  readonly ledger: Pick<Ledger, 'checkpoint'>;
  /** Null: what is too large for the ledger is too large. */
  readonly store: CheckpointStore | null;
  readonly maxBytes: number;
  readonly runtime: Pick<Runtime, 'faultPoint' | 'log'>;
  /** @default 262144 */
  readonly inlineBytes?: number;
}

/**
 * Progress of runs, whatever its size. A large one is kept first and referred to then, so the ledger refers to nothing that
 * is not all there; what it referred to before goes afterwards.
 */
export class Checkpoints implements Pick<Ledger, 'checkpoint'> {
  readonly #parts: CheckpointsParts;
  readonly #inlineBytes: number;
  readonly #maxBytes: number;
  /** By run: what the ledger refers to. */
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
    await this.#parts.runtime.faultPoint('worker.checkpoint-kept-not-told');
    const status = await ledger.checkpoint(run, seq, referenceTo(key, data));
    if (status === 'ok') await this.#replace(run, key);
    else await this.#remove(key);
    return status;
  }

  /**
   * The task with its progress itself. Progress that is damaged or lost is none: the run begins at the beginning, and says
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

  /** Says again, under this run, what the ledger says already: only the owner of the task may. */
  async #judgeLoss(task: BegunTask, bytes: Uint8Array, { seq, size }: Reference): Promise<void> {
    const { ledger, runtime } = this.#parts;
    if ((await ledger.checkpoint(task, task.checkpointSeq, bytes)) !== 'ok') throw stale(task);
    const lost = 'a checkpoint is lost or damaged; the run begins without it';
    runtime.log.error({ task: task.id, seq, size }, lost);
  }

  /** The run is over here; what its task will not need again goes. A task that may come back keeps its progress. */
  forget(run: RunRef, isTaskDone: boolean): Promise<void> | undefined {
    // Hardly any task has a checkpoint that is not in the ledger itself.
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

  /** What cannot be removed now is found by a resurrector. */
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
