import type { RunRef } from '../ledger/ledger.ts';
import type { FaultPoint } from '../runtime/fault-point.ts';
import type { Task } from '../task/define-task.ts';
import type { SendOptions } from '../task/define-task.ts';

/**
 * The effect-once door. In one transaction of the user's database: the fence is checked and its lock held, the
 * step is marked, `fn` has its effect, the step's value is kept. A step that is there already gives its value and
 * `fn` does not run. Throws `ERR_FENCE_STALE` when another epoch owns the task.
 */
export interface EffectDoor<Tx = unknown> {
  pass(
    run: RunRef,
    step: string,
    fn: (tx: Tx) => Promise<Uint8Array | null>,
  ): Promise<Uint8Array | null>;
}

/** Writes a task into the outbox inside a transaction; the id of the task. */
export type SendInside<Tx = unknown> = (
  tx: Tx,
  task: Task,
  input: unknown,
  options: SendOptions,
) => Promise<string>;

/** Where a handler comes from: the instance whose transactions its effects join. */
export interface HandlerOrigin {
  door(faultPoint: FaultPoint): EffectDoor;
  readonly sendInside: SendInside;
}
