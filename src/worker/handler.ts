import { outlastError } from '../errors/error.ts';
import { inRange, refuseUnknown, schemaOf } from '../task/contract.ts';
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

/**
 * Where a handler runs. `inline`: in the worker's own event loop. `thread`: in a thread of its own, for work that keeps a
 * processor busy. `process`: in a process of its own, which may die without harm to its neighbours. A hard timeout ends
 * the last two, whatever they do.
 */
export type HandlerMode = 'inline' | 'thread' | 'process';

/** When a run fences off those before it. */
export type FenceTime = 'start' | 'door';

const FENCE_TIMES: readonly string[] = ['start', 'door'] satisfies FenceTime[];
const MODES: readonly string[] = ['inline', 'thread', 'process'] satisfies HandlerMode[];

export interface HandlerOptions<S extends TaskShape, Tx, C> {
  /** Where the handler runs; `thread` and `process` need it to be exported by a module named in `tasks`. @default 'inline' */
  readonly mode?: HandlerMode;
  /** How often the task may lose its worker, or its own thread or process, before it is dead. @default 5 */
  readonly maxResurrections?: number;
  readonly retry?: RetryOptions;
  /**
   * When earlier runs of the task are fenced off in your database: `start`, before the handler runs, or `door`, by its
   * first `ctx.transaction`. Where the ledger is the same database every run is fenced when it begins.
   * @default 'door'
   */
  readonly fence?: FenceTime;
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
  readonly mode: HandlerMode;
  readonly fence: FenceTime;
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
  'fence',
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
  const retry = readRetry(task.name, options.retry ?? {});
  const migrations = readMigrations(task, options.migrations ?? {});
  return Object.freeze({
    [HANDLER]: true as const,
    task,
    mode: options.mode ?? 'inline',
    fence: options.fence ?? 'door',
    maxResurrections: inRange(options.maxResurrections ?? 5, 'maxResurrections', 0, 1_000),
    ...retry,
    migrations,
    checkpoint: schemaOf(options.checkpoint, `checkpoint of the handler of ${task.name}`),
    onSoftTimeout: (options.onSoftTimeout ?? null) as Handler['onSoftTimeout'],
    run: options.run as Handler['run'],
    origin,
  });
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === 'object' && value !== null && HANDLER in value;
}

interface LooseOptions {
  readonly mode?: string;
  readonly fence?: string;
  readonly run?: unknown;
  readonly onSoftTimeout?: unknown;
}

function checkOptions(name: string, options: LooseOptions): void {
  const { mode, fence, run, onSoftTimeout } = options;
  refuseUnknown(Object.keys(options), KNOWN_OPTIONS, `the handler of ${name}`);
  if (mode !== undefined && !MODES.includes(mode))
    throw outOfRange(name, 'mode', mode, `Use one of ${MODES.join(', ')}.`);
  if (fence !== undefined && !FENCE_TIMES.includes(fence))
    throw outOfRange(name, 'fence', fence, `Use one of ${FENCE_TIMES.join(', ')}.`);
  if (typeof run !== 'function')
    throw outOfRange(name, 'run', run, 'Give a function, or options with `run`.');
  if (onSoftTimeout !== undefined && typeof onSoftTimeout !== 'function')
    throw outOfRange(
      name,
      'onSoftTimeout',
      onSoftTimeout,
      'Give a function that takes the context.',
    );
}

const KNOWN_RETRY = ['maxAttempts', 'backoff', 'maxBackoff', 'jitter', 'retryIf'];
const JITTERS: readonly string[] = ['none', 'tenth', 'full'] satisfies Jitter[];

/** A policy that cannot be carried out is refused where it is written, not at the first failure. */
function readRetry(
  name: string,
  retry: RetryOptions,
): Pick<Handler, 'maxAttempts' | 'backoff' | 'retryIf'> {
  const { maxAttempts = 5, jitter = 'full', retryIf = () => true } = retry;
  refuseUnknown(Object.keys(retry), KNOWN_RETRY, `\`retry\` of the handler of ${name}`);
  if (!JITTERS.includes(jitter))
    throw outOfRange(name, 'retry.jitter', jitter, `Use one of ${JITTERS.join(', ')}.`);
  if (typeof retryIf !== 'function')
    throw outOfRange(name, 'retry.retryIf', retryIf, 'Give a function that takes the error.');
  const baseMs = durationMs(retry.backoff ?? '1s', 'retry.backoff');
  const maxMs = durationMs(retry.maxBackoff ?? '1h', 'retry.maxBackoff');
  // A base beyond the longest wait by default is a longer wait, not a mistake.
  if (retry.maxBackoff !== undefined && maxMs < baseMs) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the handler of ${name} waits ${baseMs} ms after its first failure, and never longer than ${maxMs} ms`,
      hint: 'Raise `retry.maxBackoff`, or lower `retry.backoff`.',
      fields: { options: ['retry.backoff', 'retry.maxBackoff'] },
    });
  }
  return {
    maxAttempts: inRange(maxAttempts, 'retry.maxAttempts', 1, 1_000_000),
    backoff: { baseMs, maxMs: Math.max(baseMs, maxMs), jitter },
    retryIf,
  };
}

function outOfRange(name: string, option: string, value: unknown, hint: string): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` of the handler of ${name} is ${JSON.stringify(value) ?? typeof value}`,
    hint,
    fields: { option },
  });
}

/** From the oldest version named every step up to the contract's must be there, or old payloads get stuck half-way. */
function readMigrations(
  task: Task,
  given: Readonly<Record<number, unknown>>,
): Handler['migrations'] {
  const steps = new Map<number, (old: unknown) => unknown>();
  for (const [from, step] of Object.entries(given)) {
    if (typeof step !== 'function')
      throw outOfRange(task.name, `migrations.${from}`, step, 'Give a function of the old input.');
    // No payload ever gets there: it was meant for another version.
    if (!/^[1-9]\d*$/.test(from) || Number(from) >= task.contract.version)
      throw outOfRange(
        task.name,
        'migrations',
        from,
        `Name the versions before ${task.contract.version}, the one of the task.`,
      );
    steps.set(Number(from), step as (old: unknown) => unknown);
  }
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

/** Crashes of a task that no handler here knows: it is buried by its first run, whatever this says. */
const UNKNOWN_TASK_BUDGET = 5;

/** How often each task may lose its worker, by its name. */
export function crashBudgetsOf(
  handlers: ReadonlyMap<string, Pick<Handler, 'maxResurrections'>>,
): Readonly<Record<string, number>> {
  const budgets = [...handlers].map(([name, of]) => [name, of.maxResurrections] as const);
  return { '*': UNKNOWN_TASK_BUDGET, ...Object.fromEntries(budgets) };
}
