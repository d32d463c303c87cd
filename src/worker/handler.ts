import { outlastError } from '../errors/error.ts';
import { inRange } from '../task/contract.ts';
import type { Task, TaskShape } from '../task/define-task.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { StandardSchema } from '../task/standard-schema.ts';
import type { Verdict } from '../task/verdict.ts';
import type { BackoffPolicy, Jitter } from '../runtime/backoff.ts';
import type { TaskContext } from './context.ts';
import type { HandlerOrigin } from './door.ts';

/** How failed attempts are repeated. */
export interface RetryOptions {
  /** Runs in all before the task is dead. @default 5 */
  readonly maxAttempts?: number;
  /** Wait after the first failure; doubles each time. @default '1s' */
  readonly backoff?: Duration;
  /** @default '1h' */
  readonly maxBackoff?: Duration;
  /** `full` draws from the whole span, so that what failed together does not return together. @default 'full' */
  readonly jitter?: Jitter;
  /** False: this error is not worth another attempt. */
  readonly retryIf?: (error: unknown) => boolean;
}

export interface HandlerOptions<S extends TaskShape, Tx, C> {
  /** Where the handler runs. Only `inline`, in the worker's own event loop, is there yet. @default 'inline' */
  readonly mode?: 'inline';
  /** How often the task may lose its worker before it is dead. @default 5 */
  readonly maxResurrections?: number;
  readonly retry?: RetryOptions;
  /** Steps that turn the input of version n into version n + 1. */
  readonly migrations?: Readonly<Record<number, (old: never) => unknown>>;
  /** Types and checks `ctx.checkpoint` and `ctx.lastCheckpoint`. */
  readonly checkpoint?: StandardSchema<C, C>;
  /** Told when the soft timeout passes; shares the context of the run that goes on. */
  readonly onSoftTimeout?: (ctx: TaskContext<S, Tx, C>) => void | Promise<void>;
  readonly run: HandlerFunction<S, Tx, C>;
}

/** Returning is done, throwing is a failed attempt, verdicts are values. */
export type HandlerFunction<S extends TaskShape, Tx, C = never> = (
  input: S['parsed'],
  ctx: TaskContext<S, Tx, C>,
) => S['returned'] | Verdict | Promise<S['returned'] | Verdict>;

const HANDLER: unique symbol = Symbol.for('outlast.handler') as never;

/** A contract with the code that runs it. */
export interface Handler {
  readonly [HANDLER]: true;
  readonly task: Task;
  readonly maxResurrections: number;
  readonly maxAttempts: number;
  readonly backoff: BackoffPolicy;
  readonly retryIf: (error: unknown) => boolean;
  readonly migrations: ReadonlyMap<number, (old: unknown) => unknown>;
  readonly checkpoint: StandardSchema | null;
  readonly onSoftTimeout: ((ctx: TaskContext) => void | Promise<void>) | null;
  readonly run: (input: unknown, ctx: TaskContext) => unknown;
  readonly origin: HandlerOrigin;
}

const KNOWN_OPTIONS = [
  'mode',
  'maxResurrections',
  'retry',
  'migrations',
  'checkpoint',
  'onSoftTimeout',
  'run',
];

/** Joins a contract and its code. Users call it as `outlast.handler`, which knows the transaction's type. */
export function defineHandler<S extends TaskShape, Tx, C = never>(
  task: Task<S>,
  given: HandlerFunction<S, Tx, C> | HandlerOptions<S, Tx, C>,
  origin: HandlerOrigin,
): Handler {
  const options = typeof given === 'function' ? { run: given } : given;
  checkOptions(task.name, options);
  const retry = options.retry ?? {};
  const migrations = readMigrations(task, options.migrations ?? {});
  return Object.freeze({
    [HANDLER]: true as const,
    task,
    maxResurrections: inRange(options.maxResurrections ?? 5, 'maxResurrections', 0, 1_000),
    maxAttempts: inRange(retry.maxAttempts ?? 5, 'retry.maxAttempts', 1, 1_000_000),
    backoff: {
      baseMs: durationMs(retry.backoff ?? '1s', 'retry.backoff'),
      maxMs: durationMs(retry.maxBackoff ?? '1h', 'retry.maxBackoff'),
      jitter: retry.jitter ?? 'full',
    },
    retryIf: retry.retryIf ?? (() => true),
    migrations,
    checkpoint: options.checkpoint ?? null,
    onSoftTimeout: (options.onSoftTimeout ?? null) as Handler['onSoftTimeout'],
    run: options.run as Handler['run'],
    origin,
  });
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === 'object' && value !== null && HANDLER in value;
}

function checkOptions(
  name: string,
  options: { readonly mode?: string; readonly run?: unknown },
): void {
  const unknown = Object.keys(options).find(key => !KNOWN_OPTIONS.includes(key));
  if (unknown !== undefined) {
    throw outlastError('ERR_UNKNOWN_OPTION', {
      message: `the handler of ${name} has an unknown option \`${unknown}\``,
      hint: `Known options are ${KNOWN_OPTIONS.join(', ')}.`,
      fields: { option: unknown, nearest: null },
    });
  }
  if (options.mode !== undefined && options.mode !== 'inline') {
    throw outlastError('ERR_OPTION_RANGE', {
      message: `the handler of ${name} has mode ${JSON.stringify(options.mode)}`,
      hint: "This version runs handlers 'inline' only.",
      fields: { option: 'mode' },
    });
  }
  if (typeof options.run !== 'function') {
    throw outlastError('ERR_OPTION_RANGE', {
      message: `the handler of ${name} has no function to run`,
      hint: 'Give a function, or options with `run`.',
      fields: { option: 'run' },
    });
  }
}

/** From the oldest version named every step up to the contract's must be there, or old payloads get stuck half-way. */
function readMigrations(
  task: Task,
  given: Readonly<Record<number, unknown>>,
): Handler['migrations'] {
  const steps = new Map(
    Object.entries(given).map(([from, step]) => [Number(from), step as (old: unknown) => unknown]),
  );
  const oldest = Math.min(...steps.keys());
  for (let version = oldest; version < task.contract.version; version++) {
    if (steps.has(version)) continue;
    throw outlastError('ERR_VERSION_UNREACHABLE', {
      message: `${task.name} has no migration from version ${version}, so version ${oldest} never reaches ${task.contract.version}`,
      hint: `Add migrations[${version}], or remove the ones below it.`,
      fields: { task: task.name, version },
    });
  }
  return steps;
}
