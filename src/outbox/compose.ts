import { outlastError } from '../errors/error.ts';
import type { Call, Task } from '../task/define-task.ts';
import { isTask } from '../task/define-task.ts';
import { inRange, refuseUnknown } from '../task/contract.ts';
import { digestOf, fingerprintOf } from '../task/digest.ts';
import { durationMs, type Duration } from '../task/duration.ts';
import type { Envelope, EnvelopeOptions, LinkOption } from '../task/envelope.ts';
import { encodeInput, plainInput } from '../task/input.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { safeKey, safeName } from '../task/names.ts';
import { EMBED, type NewTask } from './outbox-writer.ts';
import { SEND_OPTIONS, type SendOptions } from '../task/define-task.ts';

export interface ComposeDeps {
  readonly nowMs: number;
  readonly newId: () => string;
  readonly maxPayloadBytes: number;
}

/** Turns a contract, an input and options into what travels. Throws before anything is written. */
export async function composeTask(
  task: Task,
  input: unknown,
  options: SendOptions,
  deps: ComposeDeps,
): Promise<NewTask> {
  checkOptions(options);
  const { name, contract } = task;
  const call = await encodeInput(name, contract, input);
  const body = toBytes(`[${call.args},${call.kwargs},${EMBED}]`);
  const settings = toBytes(encodeJson(await envelopeOptions(task, options, deps)));
  checkSize(name, body.length + settings.length, deps.maxPayloadBytes);
  const id = options.id === undefined ? deps.newId() : safeName(options.id, 'task id');
  const version = contract.version;
  const envelope: Envelope = {
    id,
    name,
    queue: safeName(options.queue ?? contract.queue, 'queue'),
    priority: inRange(options.priority ?? contract.priority, 'priority', 0, 9),
    version,
    body,
    options: settings,
    digest: digestOf({ name, id, version, body }),
    etaMs: etaOf(options, deps.nowMs),
    expiresMs: expiresOf(task, options, deps.nowMs),
  };
  const key = options.idempotencyKey;
  const orderingKey = orderingKeyOf(task, input, options);
  return {
    envelope,
    call,
    idempotencyKey: key === undefined ? null : safeKey(key, 'idempotencyKey'),
    fingerprint: fingerprintOf(name, version, call.args, call.kwargs),
    orderingKey,
    parksKey: orderingKey !== null && (contract.ordering?.parks ?? true),
    redacted: null,
  };
}

function checkOptions(options: SendOptions): void {
  refuseUnknown(Object.keys(options), SEND_OPTIONS, 'this send');
  if (options.countdown !== undefined && options.eta !== undefined)
    throw conflict(['countdown', 'eta'], '`countdown` and `eta` both say when to begin');
}

function conflict(options: readonly string[], message: string): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message,
    hint: `Leave one of them out: ${options.join(', ')}.`,
    fields: { options },
  });
}

/** A row that waits for its time would hold back all that were committed after it, or be overtaken: neither is an order. */
function orderingKeyOf(task: Task, input: unknown, options: SendOptions): string | null {
  const { ordering } = task.contract;
  const key = options.orderingKey ?? ordering?.key(plainInput(task.contract, input));
  if (key === undefined) return null;
  const time = options.eta === undefined ? 'countdown' : 'eta';
  if (options[time] !== undefined) {
    throw conflict(
      [options.orderingKey === undefined ? 'ordering' : 'orderingKey', time],
      `${task.name} has an ordering key and a time of its own: it cannot be published in order and later`,
    );
  }
  return safeKey(key, 'orderingKey');
}

function checkSize(name: string, bytes: number, maxBytes: number): void {
  if (bytes <= maxBytes) return;
  throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message: `a ${name} of ${bytes} bytes is larger than the ${maxBytes} allowed`,
    hint: 'Store the data elsewhere and send a reference to it, or raise maxPayloadBytes.',
    fields: { bytes, maxBytes },
  });
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

function bornExpired(): Error {
  return outlastError('ERR_OPTION_RANGE', {
    message: '`expires` is no time at all: the task could never begin',
    hint: "Give it a length, for example '1h', or leave it out.",
    fields: { option: 'expires' },
  });
}

/** An instant as it is, a length counted from now. */
function momentMs(moment: Duration | Date, nowMs: number, option: string): number {
  return moment instanceof Date ? instantMs(moment, option) : nowMs + durationMs(moment, option);
}

// The years 1 to 9999: what every database and every other language can hold.
const EARLIEST_MS = -62_135_596_800_000;
const LATEST_MS = 253_402_300_799_999;

function instantMs(instant: Date, option: string): number {
  const ms = instant instanceof Date ? instant.getTime() : Number.NaN;
  if (ms >= EARLIEST_MS && ms <= LATEST_MS) return ms;
  throw outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` is not a Date of the years 1 to 9999`,
    hint: 'Give a Date.',
    fields: { option },
  });
}

async function envelopeOptions(
  task: Task,
  options: SendOptions,
  deps: ComposeDeps,
): Promise<EnvelopeOptions> {
  const { contract } = task;
  const { deadline, headers, keepResult, link } = options;
  return {
    ...(contract.timeoutMs === null ? {} : { timeoutMs: contract.timeoutMs }),
    ...(contract.softTimeoutMs === null ? {} : { softTimeoutMs: contract.softTimeoutMs }),
    ...(deadline === undefined ? {} : { deadlineMs: momentMs(deadline, deps.nowMs, 'deadline') }),
    ...(headers === undefined ? {} : { headers: checkHeaders(headers) }),
    ...(keepResult === undefined ? {} : { keepResult }),
    ...(link === undefined ? {} : { link: await linkOptions(link, deps) }),
  };
}

function checkHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [key, value] of Object.entries(headers)) {
    safeKey(key, 'a header name');
    if (typeof value === 'string') continue;
    throw outlastError('ERR_INPUT_NOT_JSON', {
      message: `header \`${key}\` is a ${typeof value}`,
      hint: 'Headers are texts.',
      fields: { path: `headers.${key}` },
    });
  }
  return headers;
}

async function linkOptions(
  link: Task | Call | readonly (Task | Call)[],
  deps: ComposeDeps,
): Promise<readonly LinkOption[]> {
  const targets = Array.isArray(link) ? (link as readonly (Task | Call)[]) : [link as Task | Call];
  return await Promise.all(targets.map(target => linkOption(target, deps)));
}

async function linkOption(target: Task | Call, deps: ComposeDeps): Promise<LinkOption> {
  const { task, input, options } = isTask(target)
    ? { task: target, input: undefined, options: {} }
    : target;
  const { contract } = task;
  const call = isTask(target) ? null : await encodeInput(task.name, contract, input);
  return {
    name: task.name,
    queue: safeName(options.queue ?? contract.queue, 'queue'),
    priority: inRange(options.priority ?? contract.priority, 'priority', 0, 9),
    version: contract.version,
    call,
    options: await envelopeOptions(task, options, deps),
  };
}
