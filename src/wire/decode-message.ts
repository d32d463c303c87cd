import { isUtf8 } from 'node:buffer';
import { MAX_CONCURRENCY } from '../task/admission-rule.ts';
import { inRange } from '../task/check-option.ts';
import { MeasuredEnvelope, digestOf } from '../task/digest.ts';
import {
  type Envelope,
  type EnvelopeOptions,
  type OwnAdmission,
  earliest,
} from '../task/envelope.ts';
import { isJson, toBytes } from '../task/json.ts';
import { jsonFault } from '../task/json-limits.ts';
import { safeKey, safeName } from '../task/names.ts';
import { NO_OPTIONS_BYTES, fewOptions } from '../task/read-options.ts';
import { isUnfitTrace } from '../task/trace-headers.ts';
import { TRAVELLING } from '../task/travelling-options.ts';
import {
  OWN_HEADERS,
  isReserved,
  pathOf,
  refusedOf,
  rememberHeaders,
  shown,
  textOf,
  textsOf,
} from './headers.ts';
import { parseInstant } from './iso-time.ts';
import { askerOf } from './reply.ts';
import { cutMessage } from './cut-message.ts';
import { inflated } from './inflate.ts';
import {
  type IncomingMessage,
  MAX_HEADER_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_OPTIONS_BYTES,
  type UndecodableMessage,
} from './message.ts';
import { stampsOf } from './stamps.ts';
import { Unreadable, tooLarge } from './unreadable.ts';

const BRACKET = 0x5b;
const JSON_TYPE = 'application/json';
const TEXT_ENCODINGS = new Set(['utf-8', 'utf8', 'us-ascii', 'ascii']);

/**
 * Reads a message from any sender. Never throws: an unreadable one is returned as such, with its bytes; one larger than
 * `maxBytes`, as received or inflated, with the first of them.
 */
export function decodeMessage(
  message: IncomingMessage,
  maxBytes: number = MAX_MESSAGE_BYTES,
): Envelope | UndecodableMessage {
  try {
    return decode(message, maxBytes);
  } catch (error) {
    const { body: raw, queue } = message;
    const headers = isTable(message.headers) ? textsOf(message.headers) : {};
    const why = error instanceof Error ? error.message : String(error);
    const reason = error instanceof Unreadable ? error.reason : 'ERR_UNDECODABLE';
    const name = nameIn(message.headers);
    const quotes = error instanceof Unreadable ? {} : { quotes: true as const };
    const asker = askerOf(message);
    const found = {
      raw,
      queue,
      why,
      ...quotes,
      reason,
      headers,
      ...(name === null ? {} : { name }),
      ...(asker === null ? {} : { asker }),
    };
    return reason === 'ERR_MESSAGE_TOO_LARGE' ? cutMessage(found) : found;
  }
}

type Table = Readonly<Record<string, unknown>>;

function decode(message: IncomingMessage, maxBytes: number): Envelope {
  const { length } = message.body;
  if (length > maxBytes) throw tooLarge(`has ${length} bytes`, maxBytes);
  const headers = readTable(message);
  const { contentType, contentEncoding } = message.properties;
  if (contentType !== JSON_TYPE) throw new Unreadable(`its content type is ${shown(contentType)}`);
  if (contentEncoding !== undefined && !isText(contentEncoding))
    throw new Unreadable(`its content encoding is ${shown(contentEncoding)}`);
  if (own(headers, 'task') === undefined) throw protocolOne(message.body);
  const name = named(headers, 'task');
  const id = idOf(headers);
  const version = versionOf(headers);
  const body = inflated(own(headers, 'compression'), message.body, maxBytes);
  const digest = digestOf({ name, id, version, body });
  const signature = checkBody(headers, body, digest);
  const common = signature === undefined ? commonOptions(id, headers, message.properties) : null;
  const envelope = new MeasuredEnvelope({
    id,
    name,
    queue: message.queue,
    priority: priorityOf(message.properties.priority),
    version,
    body,
    options: common ?? writeOptions(optionsOf({ id, signature }, headers, message.properties)),
    digest,
    // Not before, and not after: a fraction of a millisecond is rounded in the safe direction.
    etaMs: instantOf(headers, 'eta', Math.ceil),
    expiresMs: earliest(
      instantOf(headers, 'expires', Math.floor),
      common ? null : deadlineOf(headers),
    ),
  });
  rememberHeaders(envelope, headers);
  return envelope;
}

/** Headers that are never options, whatever their value. */
const SAYS_NO_OPTION: ReadonlySet<string> = new Set(
  `lang task id eta expires retries argsrepr kwargsrepr origin replaced_task_nesting stamps`
    .split(' ')
    .concat([OWN_HEADERS.schema, OWN_HEADERS.digest, OWN_HEADERS.path]),
);

/**
 * Most messages have none, or only ask for no result: one check per header costs a third of reading all options. Null:
 * these have others.
 */
function commonOptions(
  id: string,
  headers: Table,
  { replyTo, correlationId }: IncomingMessage['properties'],
): Uint8Array | null {
  if (replyTo !== undefined || (correlationId !== undefined && correlationId !== id)) return null;
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value === null || value === undefined || SAYS_NO_OPTION.has(name)) continue;
    const isDefault =
      (name === 'root_id' && value === id) ||
      (name === 'ignore_result' && typeof value === 'boolean') ||
      (name === 'stamped_headers' && Array.isArray(value) && value.length === 0) ||
      (name === 'timelimit' && Array.isArray(value) && value.every(limit => limit === null));
    if (!isDefault) return null;
  }
  return fewOptions(headers['ignore_result'] === true, pathOf(textIn(headers, OWN_HEADERS.path)));
}

/** Messages without options share these bytes. */
function writeOptions(options: EnvelopeOptions): Uint8Array {
  for (const _ in options) {
    const bytes = toBytes(JSON.stringify(options));
    if (bytes.length > MAX_OPTIONS_BYTES) throw tooLarge('has too long headers', MAX_OPTIONS_BYTES);
    return bytes;
  }
  return NO_OPTIONS_BYTES;
}

const isText = (encoding: unknown): boolean =>
  typeof encoding === 'string' && TEXT_ENCODINGS.has(encoding.toLowerCase());

function readTable({ headers }: IncomingMessage): Table {
  if (!isTable(headers)) throw new Unreadable('it has no headers');
  refuseProto(headers);
  return headers;
}

/** A client that decodes a key `__proto__` by assignment has changed the table's prototype instead. */
function refuseProto(table: Table): void {
  const prototype: unknown = Object.getPrototypeOf(table);
  const isPlain = prototype === Object.prototype || prototype === null;
  if (!isPlain || Object.hasOwn(table, '__proto__'))
    throw new Unreadable('one of its headers is called `__proto__`');
}

const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const own = (table: Table, name: string): unknown =>
  Object.hasOwn(table, name) ? (table[name] ?? undefined) : undefined;

const textIn = (table: Table, name: string): string | undefined => {
  const value = own(table, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
};

/** A value that becomes one of our keys: one that no store can hold would fail the task's run again and again. */
function keyIn(table: Table, name: string): string | undefined {
  const value = textIn(table, name);
  return value === undefined ? undefined : safeKey(value, `\`${name}\``);
}

function protocolOne(body: Uint8Array): Unreadable {
  const isObject = body[0] === 0x7b;
  return new Unreadable(
    isObject
      ? 'it has no `task` header: protocol 1 of Celery is not read, set task_protocol = 2'
      : 'it has no `task` header',
  );
}

function named(headers: Table, header: string): string {
  const value = own(headers, header);
  if (typeof value !== 'string') throw new Unreadable(`it has no \`${header}\` header`);
  return safeName(value, 'task name');
}

/** What AMQP has room for. */
const MOST_ID_BYTES = 255;

/** Celery takes any text for an id, and so do we, if every store and broker can hold it. */
function idOf(headers: Table): string {
  const value = own(headers, 'id');
  if (typeof value !== 'string') throw new Unreadable('it has no `id` header');
  if (Buffer.byteLength(value) > MOST_ID_BYTES)
    throw new Unreadable(`its id is longer than ${MOST_ID_BYTES} bytes`);
  return safeKey(value, 'its id');
}

function nameIn(headers: unknown): string | null {
  if (!isTable(headers)) return null;
  try {
    return named(headers, 'task');
  } catch {
    return null;
  }
}

function versionOf(headers: Table): number {
  const value = own(headers, OWN_HEADERS.schema) ?? 1;
  if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 32_767)
    return Number(value);
  throw new Unreadable(`its \`${OWN_HEADERS.schema}\` is ${shown(value)}`);
}

/**
 * Our messages carry a digest over the exact bytes. Under any other `lang` it is ignored: a Python worker that retries
 * encodes the body again and copies our headers. Returns the signature, if there is one: a process with keys verifies
 * it.
 */
function checkBody(headers: Table, body: Uint8Array, digest: string): string | undefined {
  // Any sender can claim that a message is ours.
  const fault = jsonFault(body);
  if (fault !== null) throw new Unreadable(fault);
  const claimed = own(headers, 'lang') === 'js' ? own(headers, OWN_HEADERS.digest) : undefined;
  if (claimed !== undefined) {
    if (claimed === digest) return undefined;
    if (typeof claimed === 'string' && claimed.startsWith(`${digest}.`))
      return claimed.slice(digest.length + 1);
    throw new Unreadable('its bytes are not those that were sent', 'ERR_DIGEST');
  }
  if (!isUtf8(body)) throw new Unreadable('its body is not UTF-8');
  const first = body.find(byte => byte > 0x20);
  if (first !== BRACKET) throw new Unreadable('its body is not `[args, kwargs, embed]`');
  return undefined;
}

/** Celery's priorities may go up to 255 on RabbitMQ; ours end at 9. */
function priorityOf(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.min(Math.floor(value), 9) : 0;
}

function instantOf(headers: Table, name: string, round: (ms: number) => number): number | null {
  const value = own(headers, name);
  if (value === undefined) return null;
  const ms = typeof value === 'string' ? parseInstant(value) : null;
  if (ms === null) throw new Unreadable(`its \`${name}\` is ${shown(value)}`);
  return round(ms);
}

/** The options that an envelope of ours would have had, always in the same order. */
function optionsOf(
  { id, signature }: { readonly id: string; readonly signature: string | undefined },
  headers: Table,
  properties: IncomingMessage['properties'],
): EnvelopeOptions {
  const deadlineMs = deadlineOf(headers);
  const user = userHeaders(headers, {
    isDeadlineTheirs: deadlineMs === null,
    isSigned: signature !== undefined,
  });
  const [timeoutMs, softTimeoutMs] = limitsOf(headers);
  const groupIndex = own(headers, 'group_index');
  const { replyTo, correlationId } = properties;
  return dropUndefined({
    headers: Object.keys(user).length === 0 ? undefined : user,
    timeoutMs,
    softTimeoutMs,
    deadlineMs: deadlineMs ?? undefined,
    keepResult: own(headers, 'ignore_result') === true ? false : undefined,
    rootId: otherThan(id, own(headers, 'root_id')),
    parentId: textIn(headers, 'parent_id'),
    groupId: textIn(headers, 'group'),
    groupIndex: Number.isSafeInteger(groupIndex) ? (groupIndex as number) : undefined,
    shadow: textIn(headers, 'shadow'),
    // A signature does not cover them.
    stamps: signature === undefined ? stampsOf(headers) : undefined,
    replyTo: typeof replyTo === 'string' && replyTo !== '' ? replyTo : undefined,
    correlationId: otherThan(id, correlationId),
    ...Object.fromEntries(TRAVELLING.map(({ key, header }) => [key, keyIn(headers, header)])),
    admission: admissionOf(textIn(headers, OWN_HEADERS.admission)),
    refused: refusedOf(textIn(headers, OWN_HEADERS.refused)),
    path: pathOf(textIn(headers, OWN_HEADERS.path)),
    signature,
    redacted: redactedOf(headers),
  });
}

/** The one header of ours whose name other programs use too: theirs may be anything, and is then passed on as theirs. */
function deadlineOf(headers: Table): number | null {
  const value = textIn(headers, OWN_HEADERS.deadline);
  const isOurs = own(headers, 'lang') === 'js' || (value !== undefined && parseInstant(value));
  return isOurs ? instantOf(headers, OWN_HEADERS.deadline, Math.floor) : null;
}

/** An unreadable value sets no limits of its own; the configured limits still apply. */
function admissionOf(text: string | undefined): EnvelopeOptions['admission'] {
  try {
    const value: unknown = text === undefined ? undefined : JSON.parse(text);
    if (!isTable(value)) return undefined;
    const { key, concurrency } = value as OwnAdmission;
    if (key !== undefined) safeKey(key, 'its key');
    if (concurrency !== undefined) inRange(concurrency, 'concurrency', 1, MAX_CONCURRENCY);
    return value;
  } catch {
    return undefined;
  }
}

const HIDDEN = '"[hidden]"';

/** What operators may see. A copy that was cut, or that another language made from the arguments themselves, is hidden. */
function redactedOf(headers: Table): EnvelopeOptions['redacted'] {
  if (own(headers, OWN_HEADERS.redacted) !== true) return undefined;
  const copy = (name: string): string => {
    const text = own(headers, 'lang') === 'js' ? textIn(headers, name) : undefined;
    return text !== undefined && isJson(text) ? text : HIDDEN;
  };
  return { args: copy('argsrepr'), kwargs: copy('kwargsrepr') };
}

const otherThan = (id: string, value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value !== id ? value : undefined;

type Loose<T> = { readonly [K in keyof T]?: T[K] | undefined };

function dropUndefined(options: Loose<EnvelopeOptions>): EnvelopeOptions {
  const found: Record<string, unknown> = {};
  for (const name of Object.keys(options) as (keyof EnvelopeOptions)[])
    if (options[name] !== undefined) found[name] = options[name];
  return found;
}

/** `[hard, soft]` in seconds; zero and null mean no limit. */
function limitsOf(headers: Table): readonly (number | undefined)[] {
  const value = own(headers, 'timelimit');
  if (value === undefined) return [];
  const isLimit = (limit: unknown): boolean =>
    limit === null || limit === undefined || typeof limit === 'number';
  if (!Array.isArray(value) || !value.every(isLimit))
    throw new Unreadable(`its \`timelimit\` is ${shown(value)}`);
  // Seconds with a fraction: a microsecond is finer than any sender means.
  return (value as (number | null)[]).map(limit =>
    limit !== null && limit > 0 ? Math.round(limit * 1e6) / 1e3 : undefined,
  );
}

const NO_HEADERS: Record<string, string> = Object.freeze({});

/**
 * The user's headers: the nested table, and at the top level every header without a meaning of its own there. A
 * signature covers the nested table, which has all of them; headers that a broker or a third party has added beside it
 * are not the sender's.
 */
function userHeaders(
  headers: Table,
  { isDeadlineTheirs, isSigned }: Readonly<Record<'isDeadlineTheirs' | 'isSigned', boolean>>,
): Record<string, string> {
  const nested = own(headers, 'headers');
  const isTheirs = (name: string): boolean =>
    !isReserved(name) || (isDeadlineTheirs && name === OWN_HEADERS.deadline);
  const theirs: (readonly [string, unknown])[] = [];
  if (!isSigned)
    for (const name of Object.keys(headers)) if (isTheirs(name)) theirs.push([name, headers[name]]);
  if (!isTable(nested) && theirs.length === 0) return NO_HEADERS;
  const found = new Map<string, string>();
  let bytes = 0;
  const add = (name: string, value: unknown): void => {
    const text = value === null || value === undefined ? null : textOf(value);
    if (text === null || found.has(name) || isUnfitTrace(name, text)) return;
    bytes += Buffer.byteLength(name) + Buffer.byteLength(text);
    if (bytes > MAX_HEADER_BYTES)
      throw new Unreadable(`its headers are larger than ${MAX_HEADER_BYTES} bytes`);
    found.set(name, text);
  };
  if (isTable(nested)) {
    refuseProto(nested);
    for (const [name, value] of Object.entries(nested)) add(name, value);
  }
  for (const [name, value] of theirs) add(name, value);
  return Object.fromEntries(found);
}
