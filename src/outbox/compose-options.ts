import { outlastError } from '../errors/error.ts';
import { rowOf } from '../options/option.ts';
import { CELERY_TABLE, SEND_TABLE } from '../options/send-table.ts';
import { inRange, refuseUnknown } from '../task/check-option.ts';
import type { CeleryOptions, SendOptions, Task } from '../task/define-task.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { EnvelopeOptions } from '../task/envelope.ts';
import { safeKey } from '../task/names.ts';
import { withoutUnfitTraces } from '../task/trace-headers.ts';
import { checkUserHeaders } from '../wire/headers.ts';

const SEND_OPTIONS: readonly string[] = Object.keys(SEND_TABLE);

/** Contradictory or unknown options are refused before anything else happens. */
export function checkOptions(options: SendOptions): void {
  refuseUnknown(Object.keys(options), SEND_OPTIONS, 'this send');
  if (options.countdown !== undefined && options.eta !== undefined)
    throw conflict(['countdown', 'eta'], '`countdown` and `eta` both say when to begin');
}

export function conflict(options: readonly string[], message: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message,
    hint: `Leave out one of: ${options.join(', ')}.`,
    fields: { options },
  });
}

/** The earliest and the latest time for a task to begin. */
export function timesOf(
  task: Task,
  options: SendOptions,
  nowMs: number,
): { readonly etaMs: number | null; readonly expiresMs: number | null } {
  const [etaMs, expiresMs] = [etaOf(options, nowMs), expiresOf(task, options, nowMs)];
  if (etaMs !== null && expiresMs !== null && etaMs > nowMs && etaMs >= expiresMs) {
    const when = options.eta === undefined ? 'countdown' : 'eta';
    const message = `${task.name} expires before it is due by \`${when}\`: it could never begin`;
    throw conflict([when, 'expires'], message);
  }
  return { etaMs, expiresMs };
}

function etaOf(options: SendOptions, nowMs: number): number | null {
  if (options.countdown !== undefined) return nowMs + durationMs(options.countdown, 'countdown');
  return options.eta === undefined ? null : instantMs(options.eta, 'eta');
}

function expiresOf(task: Task, options: SendOptions, nowMs: number): number | null {
  if (options.expires !== undefined) {
    const expiresMs = momentMs(options.expires, nowMs, 'expires');
    if (expiresMs === nowMs) throw bornExpired();
    return expiresMs;
  }
  return task.contract.expiresMs === null ? null : nowMs + task.contract.expiresMs;
}

export function bornExpired(): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: '`expires` is no time at all: the task could never begin',
    hint: "Give it a length, for example '1h', or leave it out.",
    fields: { option: 'expires' },
  });
}

/** A date as it is, a duration counted from now. */
function momentMs(moment: Duration | Date, nowMs: number, option: string): number {
  return moment instanceof Date ? instantMs(moment, option) : nowMs + durationMs(moment, option);
}

// The years 1 to 9999: what every database and every other language can hold.
const EARLIEST_MS = -62_135_596_800_000;
const LATEST_MS = 253_402_300_799_999;

export function instantMs(instant: Date, option: string): number {
  const ms = instant instanceof Date ? instant.getTime() : Number.NaN;
  if (ms >= EARLIEST_MS && ms <= LATEST_MS) return ms;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is not a Date of the years 1 to 9999`,
    hint: 'Give a Date.',
    fields: { option },
  });
}

const PRIORITY = rowOf(SEND_TABLE, 'priority', 'integer');

export function priorityOf({ contract }: Task, { priority }: SendOptions): number {
  return inRange(priority ?? contract.priority, 'priority', PRIORITY.min, PRIORITY.max);
}

/** Options of an unfinished envelope. */
export type WritableOptions = { -readonly [K in keyof EnvelopeOptions]: EnvelopeOptions[K] };

/** The part of the options that an envelope carries as such; the rest has its own fields there. */
export function envelopeOptions(task: Task, options: SendOptions, nowMs: number): WritableOptions {
  const { timeoutMs, softTimeoutMs, durability } = task.contract;
  const { deadline, headers, keepResult, celery } = options;
  const made: WritableOptions = {};
  if (timeoutMs !== null) made.timeoutMs = timeoutMs;
  if (softTimeoutMs !== null) made.softTimeoutMs = softTimeoutMs;
  if (deadline !== undefined) made.deadlineMs = momentMs(deadline, nowMs, 'deadline');
  if (headers !== undefined) made.headers = checkHeaders(headers);
  if (keepResult !== undefined) made.keepResult = keepResult;
  if (durability === 'end-to-end') made.receipt = true;
  return celery === undefined ? made : Object.assign(made, celeryOptions(celery));
}

export function checkHeaders(
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  for (const [key, value] of Object.entries(headers)) {
    safeKey(key, 'a header name');
    if (typeof value === 'string') continue;
    throw outlastError('ERR_INPUT_NOT_JSON', {
      message: `header \`${key}\` is a ${typeof value}`,
      hint: 'Headers are texts.',
      fields: { path: `headers.${key}` },
    });
  }
  // They often come from a request, where anybody may write anything.
  const kept = withoutUnfitTraces(headers);
  checkUserHeaders(kept);
  return kept;
}

const CELERY_OPTIONS = Object.keys(CELERY_TABLE) as readonly (keyof CeleryOptions)[];

export function celeryOptions(given: CeleryOptions | undefined): CeleryOptions {
  if (given === undefined) return {};
  refuseUnknown(Object.keys(given), CELERY_OPTIONS, '`celery` of this send');
  const options: Record<string, string> = {};
  for (const key of CELERY_OPTIONS) {
    const value = given[key];
    if (value !== undefined) options[key] = safeKey(value, `celery.${key}`);
  }
  return options;
}
