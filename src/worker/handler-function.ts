import type { TaskShape } from '../task/define-task.ts';
import type { Verdict } from '../task/verdict.ts';
import type { TaskContext } from './context.ts';

/** Returning means done, throwing means a failed attempt, verdicts are values. */
export type HandlerFunction<S extends TaskShape, Tx, C = never> = (
  input: S['parsed'],
  ctx: TaskContext<S, Tx, C>,
) => S['returned'] | Verdict | Promise<S['returned'] | Verdict>;
