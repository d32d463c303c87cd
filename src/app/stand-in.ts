import type { Context } from '../context/context.ts';
import type { TaskHandle } from '../result/result-handle.ts';
import type { Call, Permit, SendOptions, Task } from '../task/define-task.ts';
import type { HandlerOrigin } from '../worker/effects/door.ts';
import type { Schedules } from './create-schedules.ts';
import type { Outlast } from './outlast.ts';

/** What an instance does, without the types of its tasks. */
export interface Parts<Tx> {
  readonly context: Context;
  readonly origin: HandlerOrigin;
  send(tx: Tx, given: Task | Call, input?: unknown, options?: SendOptions): Promise<TaskHandle>;
  sendMany(tx: Tx, calls: readonly Call[]): Promise<readonly TaskHandle[]>;
  push(task: Task, input?: unknown, options?: SendOptions): Promise<TaskHandle>;
  admit(task: Task, input?: unknown, options?: SendOptions): Promise<Permit>;
  find(task: Task, id: string): TaskHandle;
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  readonly schedules: Schedules;
  readonly idempotencyLock: Outlast<never>['idempotencyLock'];
}

/** What works in the place of an instance while it is tested; null: the instance itself. */
export interface StandIn {
  parts: Parts<unknown> | null;
}

/** Under a key that two copies of the package share. */
export const STAND_IN: unique symbol = Symbol.for('outlast.stand-in') as never;
