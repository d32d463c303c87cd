import type { ContextValues } from '../task/context-headers.ts';
import type { SendRest, Task, TaskShape } from '../task/define-task.ts';
import { ambientTask, withinTask } from '../telemetry/ambient.ts';
import type { ScheduleSlot } from '../task/schedule-headers.ts';
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
  /** What was captured where the task was sent, such as a request id; its log lines carry it. */
  readonly context: ContextValues;
  /** The schedule and the slot it was sent for; null: no schedule has sent it. */
  readonly schedule: ScheduleSlot | null;
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

/** Runs `fn` so that `currentTask()` inside it returns this context. */
export function withTask<T>(context: TaskContext, fn: () => T): T {
  return withinTask(context, context.context, fn);
}

/**
 * The context of the task that is running here, or undefined outside of one.
 *
 * @example
 * logger.info({ task: currentTask()?.id }, 'charging');
 */
export function currentTask(): TaskContext | undefined {
  return (ambientTask() as TaskContext | null) ?? undefined;
}
