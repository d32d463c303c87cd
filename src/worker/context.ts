import { AsyncLocalStorage } from 'node:async_hooks';
import type { SendRest, Task, TaskShape } from '../task/define-task.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What a handler knows about its run, and what it may do under it. */
export interface TaskContext<S extends TaskShape = TaskShape, Tx = unknown, C = unknown> {
  /** The same in every run of the task: the key to give to outside systems. */
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  /** The first task of the workflow this one belongs to; its own id where it was the first. */
  readonly rootId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly input: S['parsed'];
  /** Failed runs + 1. A crash does not count here. */
  readonly attempt: number;
  /** How often the task lost its worker. */
  readonly resurrections: number;
  readonly epoch: number;
  /** The epoch, for outside systems that compare fences. */
  readonly fence: number;
  /** Hard timeout, deadline, cancel, lost lease: stop, nothing more will be committed. */
  readonly signal: AbortSignal;
  /** Soft timeout or drain: save a checkpoint and finish. */
  readonly softSignal: AbortSignal;
  readonly deadline: Date | null;
  readonly log: Logger;
  readonly lastCheckpoint: C | undefined;
  /** Saves progress; a later run finds it in `lastCheckpoint`. */
  checkpoint(data: C): Promise<void>;
  /** The effect-once door: checks the fence and marks the step done in the same transaction as your effect. */
  transaction<T>(fn: (tx: Tx) => Promise<T>, options?: { readonly step?: string }): Promise<T>;
  /** Sends a follow-up that a rerun does not send twice. It has the deadline of this task, or a sooner one of its own. */
  send<F extends TaskShape>(task: Task<F>, ...rest: SendRest<F>): Promise<string>;
}

// One for the whole process: a library that bundles its own copy of the package must find the same context.
const STORAGE_KEY = Symbol.for('outlast.current-task');
const shared = globalThis as { [STORAGE_KEY]?: AsyncLocalStorage<TaskContext> };
const storage = (shared[STORAGE_KEY] ??= new AsyncLocalStorage<TaskContext>());

/** Runs `fn` so that `currentTask()` inside it returns this context. */
export function withTask<T>(context: TaskContext, fn: () => T): T {
  return storage.run(context, fn);
}

/**
 * The context of the task that is running here, or undefined outside of one.
 *
 * @example
 * logger.info({ task: currentTask()?.id }, 'charging');
 */
export function currentTask(): TaskContext | undefined {
  return storage.getStore();
}
