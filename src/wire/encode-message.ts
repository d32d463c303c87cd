import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { decodePython } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { TRAVELLING } from '../task/travelling-options.ts';
import { describeCall, shorten } from './describe-call.ts';
import { isReserved, OWN_HEADERS } from './header-names.ts';
import { formatInstant } from './iso-time.ts';
import { headersAsKept, plain } from './kept-headers.ts';
import type { WireMessage } from './message.ts';
import { stampHeaders } from './stamps.ts';
import { checkUserHeaders } from './user-headers.ts';

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
  const { timeoutMs, softTimeoutMs, deadlineMs, signature, redacted, admission, refused } = options;
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
