import { isOutlastError, outlastError } from '../../errors/error.ts';
import type { BegunTask, ErrorRecord, Outcome } from '../../ledger/ledger.ts';
import { backoffMs } from '../../runtime/backoff.ts';
import type { RunEnd } from '../../telemetry/traces.ts';
import { briefly, errorRecord, shortText } from './error-record.ts';
import type { Handler } from '../handler.ts';

/** What is to be done about a run that ended. */
export type Settlement =
  /** `value` is the JSON text for follow-ups, whether or not the result is stored. */
  | { readonly kind: 'commit'; readonly outcome: Outcome; readonly value: string }
  | {
      readonly kind: 'fail';
      readonly error: ErrorRecord;
      /** The error without quotes from the input: stored instead if there is a redactor. */
      readonly brief?: ErrorRecord;
      readonly delayMs: number | null;
      readonly reason: string;
      readonly cause: unknown;
      /** The handler took its thread or process with it: this spends its crash budget, not its attempts. */
      readonly isCrash: boolean;
    }
  | {
      readonly kind: 'bury';
      readonly reason: string;
      readonly error: ErrorRecord;
      readonly brief?: ErrorRecord;
    }
  /** Neither finished nor failed: given back, due as before or after a delay; in an outage the delay grows. */
  | { readonly kind: 'release'; readonly delayMs?: number; readonly outage?: Want }
  /** Another run owns the task now: write nothing. */
  | { readonly kind: 'drop' };

/** The same for a trace. */
export function endOf(settlement: Settlement): RunEnd {
  switch (settlement.kind) {
    case 'commit':
      return { outcome: settlement.outcome.kind };
    case 'fail': {
      const { cause: error, isCrash, delayMs } = settlement;
      return { outcome: delayMs === null ? 'dead' : isCrash ? 'crashed' : 'failed', error };
    }
    case 'bury':
      return { outcome: 'dead' };
    case 'release':
      return { outcome: 'released' };
    case 'drop':
      return { outcome: 'lost' };
  }
}

/** What a run needed and could not get. */
export interface Want {
  readonly what: 'store' | 'limits' | 'idempotency-keys' | 'checkpoints' | 'isolate';
  readonly why: string;
}

/** Not the task's fault: it is given back, and no attempt is spent. */
export function wanting(what: Want['what'], error: unknown): Settlement {
  const why = shortText(error instanceof Error ? error.message : String(error));
  return { kind: 'release', outage: { what, why } };
}

/** What the retry decision needs besides the error. */
export interface Circumstances {
  isPastDeadline(): boolean;
  random(): number;
}

export interface Failure {
  readonly cause: unknown;
  /** The delay that a verdict asked for, instead of the backoff. */
  readonly askedMs: number | null;
}

/** A failed attempt: retried later, or final. */
export function failed(
  handler: Handler,
  task: BegunTask,
  circumstances: Circumstances,
  { cause, askedMs }: Failure,
): Settlement {
  const isTimeout = isOutlastError(cause, 'ERR_TIMEOUT');
  const record = errorRecord(cause);
  const error = {
    error: isTimeout ? { ...record, type: cause.code } : record,
    ...briefly(cause),
  };
  const isSpent =
    task.failures + 1 >= handler.maxAttempts ||
    circumstances.isPastDeadline() ||
    !isWorthRetrying(handler, cause);
  if (isSpent) {
    const reason = isTimeout ? 'ERR_TIMEOUT' : 'ERR_ATTEMPTS_SPENT';
    return { kind: 'fail', ...error, delayMs: null, reason, cause, isCrash: false };
  }
  const delayMs = askedMs ?? backoffMs(handler.backoff, task.failures, circumstances.random());
  return { kind: 'fail', ...error, delayMs, reason: '', cause, isCrash: false };
}

/** What people may see of a settlement if there is a redactor. */
export function withoutInput(settlement: Settlement): Settlement {
  if (settlement.kind !== 'fail' && settlement.kind !== 'bury') return settlement;
  const { brief } = settlement;
  if (brief === undefined) return settlement;
  if (settlement.kind === 'bury') return { ...settlement, error: brief };
  const cause = Object.assign(new Error(brief.message), { name: brief.type, stack: '' });
  return { ...settlement, error: brief, cause };
}

/** A `retryIf` that throws decides nothing: retry. */
function isWorthRetrying(handler: Handler, error: unknown): boolean {
  try {
    return handler.retryIf(error);
  } catch {
    return true;
  }
}

/** The handler's own thread or process ended under it. `cause` has the reason. */
export function crashed(handler: Handler, task: BegunTask, cause: Error): Settlement {
  const error = errorRecord(cause);
  if (task.crashes + 1 <= handler.maxResurrections)
    return { kind: 'fail', error, delayMs: 0, reason: '', cause, isCrash: true };
  // The same reason as for a task whose worker died too often: it is the same budget.
  const reason = 'ERR_RESURRECTIONS_SPENT';
  const spent = { ...error, type: reason };
  return { kind: 'fail', error: spent, delayMs: null, reason, cause, isCrash: true };
}

export function buried(reason: string, message: string): Settlement {
  return { kind: 'bury', reason, error: { type: reason, message, traceback: '' } };
}

/** Why `ctx.softSignal` fires at the soft timeout. A handler that throws it fails as a task of Celery does. */
export function softlyTimedOut(task: BegunTask): Error {
  const message = `${task.envelope.name} ran longer than its soft timeout`;
  return Object.assign(new Error(message), { name: 'SoftTimeLimitExceeded' });
}

/** Why `ctx.signal` fires at a timeout or a deadline. */
export function timedOut(task: BegunTask, timeoutMs: number, what: string): Error {
  return outlastError('ERR_TIMEOUT', {
    message: `${task.envelope.name} ran longer than ${what}`,
    hint: 'Make the task smaller, heed ctx.signal, or raise the timeout.',
    fields: { id: task.id, timeoutMs },
  });
}

/** Why a run is ended from outside: `lost` writes nothing, `release` gives back. */
export type StopReason = 'lost' | 'release';

/**
 * How a worker ends a run from outside. Hardly any run is: the signal is created on first access, because creating
 * one for every run costs more than a short handler.
 */
export class RunStop {
  /** Fires when the worker drains. */
  readonly draining: AbortSignal;
  /** Nearly always one at most: further listeners are in a separate list. */
  #listener: (() => void) | null = null;
  #others: readonly (() => void)[] | null = null;
  #reason: StopReason | null = null;
  #controller: AbortController | null = null;

  constructor(draining: AbortSignal) {
    this.draining = draining;
  }

  /** Null: the run goes on. */
  get reason(): StopReason | null {
    return this.#reason;
  }

  /** Aborts with the reason. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** The first reason counts. */
  stop(reason: StopReason): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    const [listener, others] = [this.#listener, this.#others];
    this.#listener = this.#others = null;
    listener?.();
    if (others !== null) for (const other of others) other();
  }

  /** Calls `fn` when the run is stopped, at once if it has been. */
  onStop(fn: () => void): void {
    if (this.#reason !== null) fn();
    else if (this.#listener === null) this.#listener = fn;
    else this.#others = [...(this.#others ?? []), fn];
  }

  /** Undoes `onStop`. */
  offStop(fn: () => void): void {
    if (this.#listener === fn) this.#listener = null;
    else if (this.#others !== null) this.#others = this.#others.filter(other => other !== fn);
  }
}
