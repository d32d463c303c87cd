import { isUtf8 } from 'node:buffer';
import { decodeJson, encodeJson, toBytes } from '../task/json.ts';
import { REPLY_EXCHANGE } from './headers.ts';

/** A request of Celery's remote control, as `celery inspect` and `celery control` send it. */
export interface ControlRequest {
  readonly method: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Names of nodes; null: not given. */
  readonly destination: readonly string[] | null;
  readonly pattern: string | null;
  /** The kind of pattern: `glob` or `pcre`. */
  readonly matcher: string | null;
  /** Null: no caller waits for an answer. */
  readonly replyTo: ReplyAddress | null;
  /** The sender's logical clock; 0: not given. */
  readonly clock: number;
  /** When the caller stops waiting; null: not given. */
  readonly expiresMs: number | null;
}

export interface ReplyAddress {
  readonly routingKey: string;
  /** Identifies the request for its sender; null: it gave none. */
  readonly ticket: string | null;
}

/** The content of a request or an answer, without its address. */
export interface ControlMessage {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** More than any list of ids that an operator gives. */
const MAX_BYTES = 1_048_576;

type Table = Readonly<Record<string, unknown>>;

const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' ? value : null;

/** What Python takes for true: senders write flags as true, 1 or a text. */
export function isTruthy(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isTable(value)) return Object.keys(value).length > 0;
  return Number.isNaN(value) || Boolean(value);
}

/** Reads a request from any sender; null: it is not one. Never throws. */
export function readRequest(headers: unknown, body: Uint8Array): ControlRequest | null {
  const message = parse(body);
  const method = textOf(message?.['method']);
  if (message === null || method === null) return null;
  const { destination, arguments: given } = message;
  const table = isTable(headers) ? headers : {};
  const { clock, expires } = table;
  return {
    method,
    arguments: isTable(given) ? given : {},
    destination: Array.isArray(destination) ? destination.map(String) : null,
    pattern: textOf(message['pattern']),
    matcher: textOf(message['matcher']),
    replyTo: addressOf(message),
    clock: Number.isSafeInteger(clock) && Number(clock) > 0 ? Number(clock) : 0,
    expiresMs: typeof expires === 'number' && expires > 0 ? expires * 1_000 : null,
  };
}

function parse(body: Uint8Array): Table | null {
  if (body.length > MAX_BYTES || !isUtf8(body)) return null;
  try {
    const value = decodeJson(Buffer.from(body).toString('utf8'));
    return isTable(value) ? value : null;
  } catch {
    return null;
  }
}

/** Only to the reply exchange: otherwise a request could make us write into any queue. */
function addressOf(message: Table): ReplyAddress | null {
  const to = message['reply_to'];
  if (!isTable(to) || to['exchange'] !== REPLY_EXCHANGE) return null;
  const routingKey = textOf(to['routing_key']);
  return routingKey === null ? null : { routingKey, ticket: textOf(message['ticket']) };
}

/** A request to every node, without a caller that waits: what Celery's `control.revoke` sends. A running task goes on. */
export function writeRevoke(id: string): ControlMessage {
  const request = {
    method: 'revoke',
    arguments: { task_id: id, terminate: false, signal: 'SIGTERM' },
    destination: null,
    pattern: null,
    matcher: null,
  };
  return { headers: { clock: 1, expires: 0 }, body: toBytes(encodeJson(request)) };
}

/** The answer of one node. */
export function writeReply(
  node: string,
  answer: unknown,
  { ticket, clock }: { readonly ticket: string | null; readonly clock: number },
): ControlMessage {
  return { headers: { ticket, clock }, body: toBytes(encodeJson({ [node]: answer })) };
}
