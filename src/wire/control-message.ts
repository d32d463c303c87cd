import { isUtf8 } from 'node:buffer';
import { decodeJson, encodeJson, toBytes } from '../task/json.ts';
import { REPLY_EXCHANGE } from './celery-names.ts';

/** A request of Celery's remote control, as `celery inspect` and `celery control` send it. */
export interface ControlRequest {
  readonly method: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Names of nodes; null: not said. */
  readonly destination: readonly string[] | null;
  readonly pattern: string | null;
  /** How the pattern is meant: `glob` or `pcre`. */
  readonly matcher: string | null;
  /** Null: nobody waits for an answer. */
  readonly replyTo: ReplyAddress | null;
  /** The sender's logical clock; 0: not said. */
  readonly clock: number;
  /** When nobody waits for it any more; null: not said. */
  readonly expiresMs: number | null;
}

export interface ReplyAddress {
  readonly routingKey: string;
  /** Tells the sender which of its requests this answers; null: it gave none. */
  readonly ticket: string | null;
}

/** What travels for an answer besides where it goes. */
export interface ControlReply {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** More than any list of ids that a person gives. */
const MAX_BYTES = 1_048_576;

type Table = Readonly<Record<string, unknown>>;

const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' ? value : null;

/** Reads a request of anybody's; null: it is none. Never throws. */
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

/** Only to where answers belong: otherwise a request could make us write into any queue. */
function addressOf(message: Table): ReplyAddress | null {
  const to = message['reply_to'];
  if (!isTable(to) || to['exchange'] !== REPLY_EXCHANGE) return null;
  const routingKey = textOf(to['routing_key']);
  return routingKey === null ? null : { routingKey, ticket: textOf(message['ticket']) };
}

/** What one node answers. */
export function writeReply(
  node: string,
  answer: unknown,
  { ticket, clock }: { readonly ticket: string | null; readonly clock: number },
): ControlReply {
  return { headers: { ticket, clock }, body: toBytes(encodeJson({ [node]: answer })) };
}
