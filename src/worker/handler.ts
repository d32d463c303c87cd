import { outlastError } from '../errors/error.ts';
import { HANDLER_TABLE, RETRY_TABLE } from '../options/handler-table.ts';
import {
  defaultDuration,
  defaultNumber,
  rowOf,
  type ChoiceRow,
  type OptionRow,
} from '../options/option.ts';
import { inRange, refuseUnknown, schemaOf } from '../task/check-option.ts';
import type { Task, TaskShape } from '../task/define-task.ts';
import { durationMs } from '../task/duration.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Slo } from '../task/slo.ts';
import type { BackoffPolicy, Jitter } from '../runtime/backoff.ts';
import type { HandlerOrigin } from './effects/door.ts';
import type { HandlerFunction } from './handler-function.ts';
import type {
  FenceTime,
  HandlerMode,
  HandlerOptions,
  ResolvedHandlerOptions,
  RetryOptions,
} from './options.generated.ts';

export type { FenceTime, HandlerFunction, HandlerMode, HandlerOptions, RetryOptions };

const HANDLER: unique symbol = Symbol.for('outlast.handler') as never;

/** A contract with the code that runs it. */
export interface Handler extends ResolvedHandlerOptions {
  readonly [HANDLER]: true;
  readonly task: Task;
  readonly maxAttempts: number;
  readonly backoff: BackoffPolicy;
  readonly retryIf: (error: unknown) => boolean;
  readonly origin: HandlerOrigin;
}

/** Joins a contract and its code. Users call it as `outlast.handler`, which knows the transaction's type. */
export function defineHandler<S extends TaskShape, Tx, C = never>(
  task: Task<S>,
  given: HandlerFunction<S, Tx, C> | HandlerOptions<S, Tx, C>,
  origin: HandlerOrigin,
): Handler {
  const options: Given = typeof given === 'function' ? { run: given } : { ...given };
  const { name } = task;
  refuseUnknown(Object.keys(options), Object.keys(HANDLER_TABLE), `the handler of ${name}`);
  const read = Object.entries(HANDLER_TABLE)
    .filter(([key]) => key !== 'retry' && key !== 'migrations')
    .map(([key, row]) => [key, readOption(name, [key, row], options[key])]);
  return Object.freeze({
    [HANDLER]: true as const,
    task,
    // `options.generated.ts` has the type of what the rows produce.
    ...(Object.fromEntries(read) as Omit<ResolvedHandlerOptions, 'migrations'>),
    ...readRetry(name, (options['retry'] ?? {}) as RetryOptions),
    migrations: readMigrations(
      task,
      (options['migrations'] ?? {}) as Readonly<Record<number, unknown>>,
    ),
    origin,
  });
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === 'object' && value !== null && HANDLER in value;
}

type Given = Readonly<Record<string, unknown>>;

/** The signature of each function of a handler, for the error message when something else was given. */
const FUNCTION_HINTS: Readonly<Record<string, string>> = {
  run: 'Give a function, or options with `run`.',
  onSoftTimeout: 'Give a function that takes the context.',
};

/** Reads one option according to its row; null if it was not given and has no default. */
function readOption(
  name: string,
  [key, row]: readonly [string, OptionRow],
  given: unknown,
): unknown {
  if (row.kind === 'schema') return schemaOf(given, `${key} of the handler of ${name}`);
  const value = given === undefined ? row.default : given;
  if (value === undefined && !row.isRequired) return null;
  switch (row.kind) {
    case 'integer':
      return inRange((value ?? row.default) as number, key, row.min, row.max);
    case 'choice':
      return readChoice(name, key, [row, value]);
    case 'function':
      if (typeof value === 'function') return value;
      throw outOfRange(name, key, value, FUNCTION_HINTS[key] ?? 'Give a function.');
    default:
      return value;
  }
}

function readChoice(
  name: string,
  option: string,
  [{ choices }, value]: readonly [ChoiceRow, unknown],
): string {
  if (choices.includes(value as string)) return value as string;
  throw outOfRange(name, option, value, `Use one of ${choices.join(', ')}.`);
}

/** A policy that cannot be carried out is rejected at definition time, not at the first failure. */
function readRetry(
  name: string,
  retry: RetryOptions,
): Pick<Handler, 'maxAttempts' | 'backoff' | 'retryIf'> {
  const { maxAttempts = defaultNumber(RETRY_TABLE, 'maxAttempts'), retryIf = () => true } = retry;
  refuseUnknown(
    Object.keys(retry),
    Object.keys(RETRY_TABLE),
    `\`retry\` of the handler of ${name}`,
  );
  const attempts = rowOf(RETRY_TABLE, 'maxAttempts', 'integer');
  const jitterRow = rowOf(RETRY_TABLE, 'jitter', 'choice');
  const { jitter = jitterRow.default } = retry;
  readChoice(name, 'retry.jitter', [jitterRow, jitter]);
  if (typeof retryIf !== 'function')
    throw outOfRange(name, 'retry.retryIf', retryIf, 'Give a function that takes the error.');
  const lengthMs = (key: 'backoff' | 'maxBackoff'): number =>
    durationMs(retry[key] ?? defaultDuration(RETRY_TABLE, key), `retry.${key}`);
  const [baseMs, maxMs] = [lengthMs('backoff'), lengthMs('maxBackoff')];
  // A base above the default maximum means a longer wait, not a mistake.
  if (retry.maxBackoff !== undefined && maxMs < baseMs) {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: `the handler of ${name} waits ${baseMs} ms after its first failure, and never longer than ${maxMs} ms`,
      hint: 'Raise `retry.maxBackoff`, or lower `retry.backoff`.',
      fields: { options: ['retry.backoff', 'retry.maxBackoff'] },
    });
  }
  return {
    maxAttempts: inRange(maxAttempts, 'retry.maxAttempts', attempts.min, attempts.max),
    backoff: { baseMs, maxMs: Math.max(baseMs, maxMs), jitter: jitter as Jitter },
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

/** Every step from the oldest named version up to the contract's must exist, or old payloads get stuck half-way. */
function readMigrations(
  task: Task,
  given: Readonly<Record<number, unknown>>,
): Handler['migrations'] {
  const steps = new Map<number, (old: unknown) => unknown>();
  for (const [from, step] of Object.entries(given)) {
    if (typeof step !== 'function')
      throw outOfRange(task.name, `migrations.${from}`, step, 'Give a function of the old input.');
    // No payload ever has this version: the migration was meant for another one.
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

/** The tasks a worker with these handlers can run: a payload that is newer than its handler is for a newer worker. */
function runnableOf(
  handlers: ReadonlyMap<string, Pick<Handler, 'task'>>,
): Readonly<Record<string, number>> {
  const versions = [...handlers].map(([name, { task }]) => [name, task.contract.version] as const);
  return Object.fromEntries(versions);
}

/** The crash budget of a task that no handler here knows: it is not begun here anyway. */
const UNKNOWN_TASK_BUDGET = defaultNumber(HANDLER_TABLE, 'maxResurrections');

/** How often each task may lose its worker, by task name. */
function crashBudgetsOf(
  handlers: ReadonlyMap<string, Pick<Handler, 'maxResurrections'>>,
): Readonly<Record<string, number>> {
  const budgets = [...handlers].map(([name, of]) => [name, of.maxResurrections] as const);
  return { '*': UNKNOWN_TASK_BUDGET, ...Object.fromEntries(budgets) };
}

/** What a worker reports to the ledger about its handlers. */
export interface Abilities {
  readonly crashBudgets: Readonly<Record<string, number>>;
  /** Task names with their highest payload versions. */
  readonly runnable: Readonly<Record<string, number>>;
}

/** A task may be named `constructor`: only own properties of the table count. */
export const canRun = (
  { name, version }: Pick<Envelope, 'name' | 'version'>,
  runnable: Abilities['runnable'],
): boolean => Object.hasOwn(runnable, name) && version <= (runnable[name] ?? -1);

/** What the tasks of these handlers promise. */
export function objectivesOf(
  handlers: ReadonlyMap<string, Pick<Handler, 'task'>>,
): Readonly<Record<string, Slo | null>> {
  return Object.fromEntries([...handlers].map(([name, { task }]) => [name, task.contract.slo]));
}

export function abilitiesOf(
  handlers: ReadonlyMap<string, Pick<Handler, 'task' | 'maxResurrections'>>,
): Abilities {
  return { crashBudgets: crashBudgetsOf(handlers), runnable: runnableOf(handlers) };
}
