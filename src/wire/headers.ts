import { CONTEXT_HEADER } from '../task/context-headers.ts';
import type { Envelope, EnvelopeOptions, Refused } from '../task/envelope.ts';
import { readOptions } from '../task/read-options.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { outlastError } from '../errors/error.ts';
import { MAX_USER_HEADER_BYTES } from './message.ts';

/** Handlers get texts; any other value of a Python producer becomes its JSON. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'bigint' ? item.toString() : item,
  );
}

const SHOWN_HEADERS = 100;
const SHOWN_CHARS = 500;

/** For the dead letter: every header as received, each cut to a bounded length. */
export function textsOf(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const entries = Object.entries(headers).slice(0, SHOWN_HEADERS);
  return Object.fromEntries(entries.map(([name, value]) => [name.slice(0, 128), shown(value)]));
}

export function shown(value: unknown): string {
  try {
    return (textOf(value) ?? 'undefined').slice(0, SHOWN_CHARS);
  } catch {
    return 'a value that cannot be shown';
  }
}

/** Our own headers, beside those of options that are sent unchanged. A plain Celery worker ignores them. */
export const OWN_HEADERS = {
  schema: 'outlast-schema',
  digest: 'outlast-digest',
  /** The task's own limits, as JSON text. */
  admission: 'outlast-admission',
  /** Workers that could not run it, as JSON text. */
  refused: 'outlast-refused',
  /** When a relay claimed and published it. */
  path: 'outlast-path',
  /** True: the arguments shown are not the real ones. */
  redacted: 'outlast-redacted',
  deadline: 'deadline',
} as const;

/**
 * Names with a meaning at the top level: in Celery's protocol, in the request a Python worker builds from the headers
 * (where they would overwrite what the task needs), in RabbitMQ, or in ours. A user's header with such a name is sent in
 * the nested table only.
 */
const RESERVED: ReadonlySet<string> = new Set(
  `
  lang task id shadow eta expires group group_index retries timelimit root_id parent_id
  argsrepr kwargsrepr origin ignore_result compression replaced_task_nesting stamped_headers
  stamps headers args kwargs callbacks errbacks chain chord children taskset utc properties
  reply_to correlation_id hostname delivery_info called_directly is_eager loglevel logfile
  _children _protected CC BCC
  x-death x-delivery-count x-acquired-count x-first-death-exchange x-first-death-queue
  x-first-death-reason x-last-death-exchange x-last-death-queue x-last-death-reason
  `
    .trim()
    .split(/\s+/),
);

export function isReserved(name: string): boolean {
  if (name === CONTEXT_HEADER) return false;
  return RESERVED.has(name) || name === OWN_HEADERS.deadline || name.startsWith('outlast-');
}

/** Headers about one message: a delay of RabbitMQ's plug-in, or a check-in of Sentry, would happen again with what follows. */
const OF_ONE_MESSAGE =
  /^(?:x-(?:delay|opt-.*|stream-.*|deduplication-header|match)|sentry-(?:monitor-.*|task-.*))$/;

/** Whether what follows a task has this header of it too. */
const isHandedOn = (name: string): boolean =>
  !isReserved(name) && !OF_ONE_MESSAGE.test(name) && name !== '__proto__';

type Table = Readonly<Record<string, unknown>>;

/** Headers of foreign messages, for as long as the envelope is in use. */
const HEADERS = new WeakMap<Envelope, Table>();

/**
 * Remembers the headers of a foreign message: a worker that cannot run it gives it back unchanged. Ours can be rebuilt
 * as they were.
 */
export function rememberHeaders(envelope: Envelope, headers: Table): void {
  if (headers['lang'] !== 'js') HEADERS.set(envelope, headers);
}

/**
 * Headers that a broker acts on or has added itself: if we sent them, they would take effect once more and with our
 * rights. The body is inflated by now, and the refusals are written anew.
 */
const NOT_KEPT: ReadonlySet<string> = new Set(
  `
  CC BCC compression x-death x-delivery-count x-acquired-count x-first-death-exchange x-first-death-queue
  x-first-death-reason x-last-death-exchange x-last-death-queue x-last-death-reason
  `
    .trim()
    .split(/\s+/)
    .concat(OWN_HEADERS.refused, OWN_HEADERS.path),
);

/** The task with the headers of `message`; unchanged if it is ours. */
export function keepHeaders(envelope: Envelope, message: Envelope): Envelope {
  const headers = HEADERS.get(message);
  if (headers === undefined) return envelope;
  const options = readOptions(envelope);
  const kept = Object.entries(headers).filter(([name]) => !NOT_KEPT.has(name));
  const wire = Object.fromEntries(kept.map(([name, value]) => [name, plain(value)]));
  // Operators must not see arguments that a redactor hides.
  if (options.redacted !== undefined) for (const name of SHOWN) delete wire[name];
  return { ...envelope, options: toBytes(encodeJson({ ...options, wire })) };
}

const SHOWN = ['argsrepr', 'kwargsrepr'];

/** A value that JSON cannot express becomes a text, as handlers get it. */
export function plain(value: unknown): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  const isTable = typeof value === 'object' && !(value instanceof Uint8Array);
  if (!isTable || value instanceof Date) return value === undefined ? null : textOf(value);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
}

/** The headers of a task that goes back unchanged; `made` are those we would write. */
export function headersAsKept(wire: Table, made: Table, { redacted }: EnvelopeOptions): Table {
  const refused = made[OWN_HEADERS.refused];
  return {
    ...wire,
    ...(redacted ? Object.fromEntries(SHOWN.map(name => [name, made[name]])) : {}),
    ...(redacted ? { [OWN_HEADERS.redacted]: true } : {}),
    ...(refused === undefined ? {} : { [OWN_HEADERS.refused]: refused }),
  };
}

/** Refuses headers that no message could carry: at the send, and again when messages are built from older rows. */
export function checkUserHeaders(headers: Readonly<Record<string, string>>): void {
  let bytes = 0;
  for (const [name, text] of Object.entries(headers)) {
    // A key with this name sets a prototype in half of all readers.
    if (name === '__proto__') throw tooLarge('a header must not be called `__proto__`', 0);
    bytes += Buffer.byteLength(name) + Buffer.byteLength(text);
  }
  if (bytes > MAX_USER_HEADER_BYTES)
    throw tooLarge(`headers of ${bytes} bytes are larger than ${MAX_USER_HEADER_BYTES}`, bytes);
}

function tooLarge(message: string, bytes: number): Error {
  return outlastError('ERR_PAYLOAD_TOO_LARGE', {
    message,
    hint: 'Put the data into the input of the task.',
    fields: { bytes, maxBytes: MAX_USER_HEADER_BYTES },
  });
}

type Headers = Readonly<Record<string, string>>;

/**
 * A task's own headers, and those of the task before it that it has not itself. What is handed on never makes a task
 * unsendable: headers for which there is no room any more are left out.
 */
export function handOnHeaders(before: Headers, own: Headers): Headers {
  const all: Record<string, string> = { ...own };
  let left = MAX_USER_HEADER_BYTES;
  for (const name of Object.keys(own)) left -= sizeOf(name, own[name] ?? '');
  for (const [name, text] of Object.entries(before)) {
    if (Object.hasOwn(own, name) || !isHandedOn(name)) continue;
    const bytes = sizeOf(name, text);
    if (bytes > left) continue;
    left -= bytes;
    all[name] = text;
  }
  return all;
}

const sizeOf = (name: string, text: string): number =>
  Buffer.byteLength(name) + Buffer.byteLength(text);

/** Names kept in a message: it shows which workers to look at, not all there ever were. */
export const MOST_REFUSERS = 10;
const MOST_NAME_CHARS = 200;

/** Any sender can write this header: a value in another format is ignored. */
const PATH = /^\d{13}\.\d{13}$/;

/** What is not written as a relay writes it is left out: it is for people only. */
export function pathOf(text: string | undefined): string | undefined {
  return text !== undefined && PATH.test(text) ? text : undefined;
}

export function refusedOf(text: string | undefined): Refused | undefined {
  if (text === undefined) return undefined;
  try {
    const { times, waitedMs, by } = JSON.parse(text) as Partial<Record<keyof Refused, unknown>>;
    if (!isCount(times) || !isCount(waitedMs) || !Array.isArray(by)) return undefined;
    const names = by.filter(
      (name): name is string => typeof name === 'string' && name.length <= MOST_NAME_CHARS,
    );
    return { times, waitedMs, by: names.slice(0, MOST_REFUSERS) };
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

/** Where Celery's tools and workers meet on a broker, with kombu's names. */

/** Requests to workers: every worker receives each one. */
export const CONTROL_EXCHANGE = 'celery.pidbox';
/** Answers, each to the caller that asked. */
export const REPLY_EXCHANGE = 'reply.celery.pidbox';
/** Events of workers and their tasks. */
export const EVENT_EXCHANGE = 'celeryev';
