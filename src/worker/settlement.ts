import { isOutlastError, outlastError } from '../errors/error.ts';
import type { BegunTask, ErrorRecord, Outcome } from '../ledger/ledger.ts';
import { backoffMs } from '../runtime/backoff.ts';
import { errorRecord } from './error-record.ts';
import type { Handler } from './handler.ts';

/** What is to be done about a run that ended. */
export type Settlement =
  /** `value` is the JSON text that follow-ups take, whether or not it is kept. */
  | { readonly kind: 'commit'; readonly outcome: Outcome; readonly value: string }
  | {
      readonly kind: 'fail';
      readonly error: ErrorRecord;
      readonly delayMs: number | null;
      readonly reason: string;
      readonly cause: unknown;
      /** The handler took its thread or process with it: its crash budget pays, not its attempts. */
      readonly isCrash: boolean;
    }
  | { readonly kind: 'bury'; readonly reason: string; readonly error: ErrorRecord }
  /** Not finished and not failed: given back, due as before or after a delay. */
  | { readonly kind: 'release'; readonly delayMs?: number }
  /** Somebody else owns the task now: write nothing. */
  | { readonly kind: 'drop' };

/** What the decision about another attempt needs to know besides the error. */
export interface Circumstances {
  isPastDeadline(): boolean;
  random(): number;
}

export interface Failure {
  readonly cause: unknown;
  /** The wait a verdict asked for, instead of the backoff. */
  readonly askedMs: number | null;
}

/** A failed attempt: another one later, or none. */
export function failed(
  handler: Handler,
  task: BegunTask,
  circumstances: Circumstances,
  { cause, askedMs }: Failure,
): Settlement {
  const error = errorRecord(cause);
  const isTimeout = isOutlastError(cause, 'ERR_TIMEOUT');
  const isSpent =
    task.failures + 1 >= handler.maxAttempts ||
    circumstances.isPastDeadline() ||
    !isWorthRetrying(handler, cause);
  if (isSpent) {
    const reason = isTimeout ? 'ERR_TIMEOUT' : 'ERR_ATTEMPTS_SPENT';
    return { kind: 'fail', error, delayMs: null, reason, cause, isCrash: false };
  }
  const delayMs = askedMs ?? backoffMs(handler.backoff, task.failures, circumstances.random());
  return { kind: 'fail', error, delayMs, reason: '', cause, isCrash: false };
}

/** A `retryIf` that throws says nothing about the error: try again. */
function isWorthRetrying(handler: Handler, error: unknown): boolean {
  try {
    return handler.retryIf(error);
  } catch {
    return true;
  }
}

/** The handler's own thread or process ended under it. `cause` says how. */
export function crashed(handler: Handler, task: BegunTask, cause: Error): Settlement {
  const error = errorRecord(cause);
  if (task.crashes + 1 <= handler.maxResurrections)
    return { kind: 'fail', error, delayMs: 0, reason: '', cause, isCrash: true };
  // Told under the name that a task has whose worker died too often: it is the same budget.
  const reason = 'ERR_RESURRECTIONS_SPENT';
  const spent = { ...error, type: reason };
  return { kind: 'fail', error: spent, delayMs: null, reason, cause, isCrash: true };
}

export function buried(reason: string, message: string): Settlement {
  return { kind: 'bury', reason, error: { type: reason, message, traceback: '' } };
}

/** Why `ctx.signal` fires at a timeout or a deadline. */
export function timedOut(task: BegunTask, timeoutMs: number, what: string): Error {
  return outlastError('ERR_TIMEOUT', {
    message: `${task.envelope.name} ran longer than ${what}`,
    hint: 'Make the task smaller, heed ctx.signal, or raise the timeout.',
    fields: { id: task.id, timeoutMs },
  });
}
