// Written by scripts/write-options.mjs from the tables in src/options; edit those and run npm run build.
import type { TaskShape } from '../task/define-task.ts';
import type { Duration } from '../task/duration.ts';
import type { StandardSchema } from '../task/standard-schema.ts';
import type { TaskContext } from './context.ts';
import type { HandlerFunction } from './handler-function.ts';

/**
 * Where a handler runs. `inline`: in the worker's own event loop. `thread`: in a thread of its own, for work that keeps
 * a processor busy. `process`: in a process of its own, which may die without harm to its neighbours. A hard timeout
 * ends the last two, whatever they do.
 */
export type HandlerMode = 'inline' | 'thread' | 'process';

/** When a run fences off those before it. */
export type FenceTime = 'start' | 'door';

/** How failed attempts are repeated. */
export interface RetryOptions {
  /** Runs in all before the task is dead. @default 5 */
  readonly maxAttempts?: number;
  /** Wait after the first failure; doubles each time. @default '1s' */
  readonly backoff?: Duration;
  /** The longest wait. @default '1h' */
  readonly maxBackoff?: Duration;
  /** `full` draws from the whole span, so that what failed together does not return together. @default 'full' */
  readonly jitter?: 'none' | 'tenth' | 'full';
  /** False: this error is not worth another attempt. @default always */
  readonly retryIf?: (error: unknown) => boolean;
}

/** What the code of a task says about its runs. */
export interface HandlerOptions<S extends TaskShape, Tx, C> {
  /**
   * Where the handler runs; `thread` and `process` need it to be exported by a module named in `tasks`.
   * @default 'inline'
   */
  readonly mode?: HandlerMode;
  /**
   * When earlier runs of the task are fenced off in your database: `start`, before the handler runs, or `door`, by its
   * first `ctx.transaction`. Where the ledger is the same database every run is fenced when it begins.
   * @default 'door'
   */
  readonly fence?: FenceTime;
  /** How often the task may lose its worker, or its own thread or process, before it is dead. @default 5 */
  readonly maxResurrections?: number;
  /** How failed attempts are repeated. */
  readonly retry?: RetryOptions;
  /** Steps that turn the input of version n into version n + 1. */
  readonly migrations?: Readonly<Record<number, (old: never) => unknown>>;
  /** Types and checks `ctx.checkpoint` and `ctx.lastCheckpoint`. */
  readonly checkpoint?: StandardSchema<C, C>;
  /** Called when the soft timeout passes; shares the context of the run that goes on. */
  readonly onSoftTimeout?: (ctx: TaskContext<S, Tx, C>) => void | Promise<void>;
  /** Returning is done, throwing is a failed attempt, verdicts are values. */
  readonly run: HandlerFunction<S, Tx, C>;
}

/** What a worker knows about the runs of a task: checked and complete. */
export interface ResolvedHandlerOptions {
  readonly mode: HandlerMode;
  readonly fence: FenceTime;
  readonly maxResurrections: number;
  readonly migrations: ReadonlyMap<number, (old: unknown) => unknown>;
  readonly checkpoint: StandardSchema | null;
  readonly onSoftTimeout: ((ctx: TaskContext) => void | Promise<void>) | null;
  readonly run: (input: unknown, ctx: TaskContext) => unknown;
}
