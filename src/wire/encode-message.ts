import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { decodePython } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { TRAVELLING } from '../task/travelling-options.ts';
import { OWN_HEADERS, checkUserHeaders, headersAsKept, isReserved, plain } from './headers.ts';
import { formatInstant } from './iso-time.ts';
import type { WireMessage } from './message.ts';
import { stampHeaders } from './stamps.ts';

/**
 * The message of an envelope, as Celery would send it; `origin` names the sender, as `gen<pid>@<host>`. An ordinary
 * Celery worker runs it unchanged. Throws for headers that no broker accepts.
 */
export function encodeMessage(
  envelope: Envelope,
  origin: string,
  options: EnvelopeOptions = readOptions(envelope),
): WireMessage {
  const { correlationId = envelope.id, replyTo } = options;
  const properties = {
    contentType: 'application/json',
    contentEncoding: 'utf-8',
    priority: envelope.priority,
    correlationId,
  };
  const made = taskHeaders(envelope, origin, options);
  const { wire } = options;
  return {
    headers:
      wire === undefined ? withUserHeaders(made, options) : headersAsKept(wire, made, options),
    properties: replyTo === undefined ? properties : { ...properties, replyTo },
    body: envelope.body,
  };
}

/** One literal with one shape: the driver iterates over the fields of thousands of messages a second. */
function taskHeaders(
  envelope: Envelope,
  origin: string,
  options: EnvelopeOptions,
): Record<string, unknown> {
  const { id, body, etaMs, expiresMs } = envelope;
  const { timeoutMs, softTimeoutMs, deadlineMs, signature, redacted, admission } = options;
  const { refused, path } = options;
  const shown = redacted === undefined ? describeCall(body) : redacted;
  const headers: Record<string, unknown> = {
    lang: 'js',
    task: envelope.name,
    id,
    shadow: options.shadow ?? null,
    eta: etaMs === null ? null : formatInstant(etaMs),
    expires: expiresMs === null ? null : formatInstant(expiresMs),
    group: options.groupId ?? null,
    group_index: options.groupIndex ?? null,
    retries: 0,
    timelimit: [secondsOf(timeoutMs), secondsOf(softTimeoutMs)],
    root_id: options.rootId ?? id,
    parent_id: options.parentId ?? null,
    argsrepr: shorten(shown.args),
    kwargsrepr: shorten(shown.kwargs),
    origin,
    ignore_result: options.keepResult === false,
    [OWN_HEADERS.schema]: envelope.version,
    [OWN_HEADERS.digest]:
      signature === undefined ? envelope.digest : `${envelope.digest}.${signature}`,
  };
  if (redacted !== undefined) headers[OWN_HEADERS.redacted] = true;
  if (options.stamps !== undefined) Object.assign(headers, stampHeaders(options.stamps));
  for (const { key, header } of TRAVELLING)
    if (options[key] !== undefined) headers[header] = options[key];
  if (admission !== undefined) headers[OWN_HEADERS.admission] = JSON.stringify(admission);
  if (refused !== undefined) headers[OWN_HEADERS.refused] = JSON.stringify(refused);
  if (path !== undefined) headers[OWN_HEADERS.path] = path;
  if (deadlineMs !== undefined) headers[OWN_HEADERS.deadline] = formatInstant(deadlineMs);
  return headers;
}

const secondsOf = (ms: number | undefined): number | null => (ms === undefined ? null : ms / 1_000);

/**
 * A user's headers at both levels: OpenTelemetry for Python reads the top level, Sentry the nested table, and Celery
 * passes the nested one on when it retries.
 */
function withUserHeaders(
  headers: Record<string, unknown>,
  { headers: given, jsonHeaders = [] }: EnvelopeOptions,
): Record<string, unknown> {
  const texts = Object.entries(given ?? {});
  if (given === undefined || texts.length === 0) return headers;
  checkUserHeaders(given);
  const entries = texts.map(([name, text]): [string, unknown] => [
    name,
    jsonHeaders.includes(name) ? plain(decodePython(text)) : text,
  ]);
  for (const [name, value] of entries) if (!isReserved(name)) headers[name] = value;
  headers['headers'] = Object.fromEntries(entries);
  return headers;
}

/** As long as Celery makes them. They are for logs and dashboards; no program parses them. */
const MAX_CHARS = 1_024;
/** Scan no further than this: the text is cut anyway. */
const MAX_SCAN = 4_096;
const decoder = new TextDecoder('utf-8');

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
/** Both kinds of bracket differ only in this bit. */
const [OPENING, CLOSING, KIND] = [0x5b, 0x5d, 0x20];

/** The arguments of a body in readable form. */
export interface CallDescription {
  readonly args: string;
  readonly kwargs: string;
}

/** Cuts `args` and `kwargs` out of `[args, kwargs, embed]` without parsing a body that may be a megabyte. */
export function describeCall(body: Uint8Array): CallDescription {
  const argsEnd = endOfValue(body, 1);
  const args = textOf(body, 1, argsEnd);
  if (argsEnd === null || body[argsEnd] !== COMMA) return { args, kwargs: '...' };
  return { args, kwargs: textOf(body, argsEnd + 1, endOfValue(body, argsEnd + 1)) };
}

/** Where the array or object that starts here ends; null if that is beyond the scan limit. */
function endOfValue(body: Uint8Array, start: number): number | null {
  const limit = Math.min(body.length, start + MAX_SCAN);
  let depth = 0;
  let isInText = false;
  for (let at = start; at < limit; at++) {
    const byte = body[at] as number;
    if (isInText) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isInText = false;
    } else if (byte === QUOTE) isInText = true;
    else if ((byte & ~KIND) === OPENING) depth++;
    else if ((byte & ~KIND) === CLOSING && --depth <= 0) return at + 1;
  }
  return null;
}

function textOf(body: Uint8Array, start: number, end: number | null): string {
  const text = decoder.decode(body.subarray(start, end ?? start + MAX_SCAN)).trim();
  return end === null ? `${text.slice(0, MAX_CHARS)}...` : shorten(text);
}

export function shorten(text: string): string {
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}...`;
}
