import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { UndecodableMessage } from '../../broker/broker.ts';
import type { Envelope } from '../../task/envelope.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import { readOptions } from '../../task/read-options.ts';
import { cutMessage } from '../../wire/cut-message.ts';
import { encodeMessage } from '../../wire/encode-message.ts';
import { MAX_MESSAGE_BYTES, MAX_OPTIONS_BYTES } from '../../wire/message.ts';
import { listIndexOf, STEPS } from './redis-keys.ts';

/** A message as an element of a list: one JSON document, as kombu writes it. */
export interface Element {
  /** The index of its list among the queue's lists. */
  readonly listIndex: number;
  readonly text: string;
  /** Its original address, if that is not its queue. */
  readonly route: { readonly exchange: string; readonly routingKey: string } | null;
}

const [TRANSIENT, PERSISTENT] = [1, 2];

/** Throws for a message that no broker accepts. */
export function encodeElement(envelope: Envelope, origin: string): Element {
  const options = readOptions(envelope);
  const { headers, properties, body } = encodeMessage(envelope, origin, options);
  const { priority } = properties;
  const { exchange = '', routingKey = envelope.queue } = options;
  const text = JSON.stringify({
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('base64'),
    'content-encoding': properties.contentEncoding,
    'content-type': properties.contentType,
    headers,
    properties: {
      correlation_id: properties.correlationId,
      ...(properties.replyTo === undefined ? {} : { reply_to: properties.replyTo }),
      delivery_mode: PERSISTENT,
      delivery_info: { exchange, routing_key: routingKey },
      priority,
      body_encoding: 'base64',
      // The key under which kombu tracks unacknowledged messages: one per copy.
      delivery_tag: randomUUID(),
    },
  });
  const route = exchange === '' ? null : { exchange, routingKey };
  return { listIndex: listIndexOf(priority), text, route };
}

/** The length of such a body in base64, plus headers and properties. */
const elementBytes = (bodyBytes: number): number =>
  Math.ceil(bodyBytes / 3) * 4 + MAX_OPTIONS_BYTES;

/**
 * Reads an element from any producer. Never throws: an unreadable one is returned as such, with its bytes; one that is
 * too large with the first of them.
 */
export function decodeElement(
  bytes: Uint8Array,
  queue: string,
  listIndex: number,
  maxBytes: number = MAX_MESSAGE_BYTES,
): Envelope | UndecodableMessage {
  const most = elementBytes(maxBytes);
  if (bytes.length > most) {
    const why = `it has ${bytes.length} bytes as an element, and ${most} are taken at most`;
    return cutMessage({ raw: bytes, queue, why });
  }
  const parts = readParts(bytes);
  if (typeof parts === 'string') return { raw: new Uint8Array(bytes), queue, why: parts };
  const { element, properties, body } = parts;
  const priority = properties['priority'];
  const message = {
    headers: element['headers'],
    properties: {
      contentType: element['content-type'],
      contentEncoding: element['content-encoding'] ?? undefined,
      priority: typeof priority === 'number' ? priority : (STEPS[listIndex] ?? 0),
      correlationId: properties['correlation_id'],
      replyTo: properties['reply_to'],
    },
    body,
    queue,
  };
  return decodeMessage(message, maxBytes);
}

/** An answer or an event: not a task, and worthless after a restart. */
export interface Notice {
  readonly exchange: string;
  readonly routingKey: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

export function encodeNotice({ exchange, routingKey, headers, body }: Notice): string {
  return JSON.stringify({
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('base64'),
    'content-encoding': 'utf-8',
    'content-type': 'application/json',
    headers,
    properties: {
      delivery_mode: TRANSIENT,
      delivery_info: { exchange, routing_key: routingKey },
      priority: 0,
      body_encoding: 'base64',
      delivery_tag: randomUUID(),
    },
  });
}

type Table = Readonly<Record<string, unknown>>;

export interface ElementParts {
  readonly element: Table;
  readonly properties: Table;
  readonly body: Uint8Array;
}

/** The parts of an element, or why it cannot be read. */
export function readParts(bytes: Uint8Array): ElementParts | string {
  const element = parseTable(bytes);
  if (element === null) return 'it is not a JSON object, as the elements of kombu are';
  const properties = isTable(element['properties']) ? element['properties'] : {};
  const body = readBody(element['body'], properties['body_encoding']);
  return typeof body === 'string' ? body : { element, properties, body };
}

function parseTable(bytes: Uint8Array): Table | null {
  if (!isUtf8(bytes)) return null;
  try {
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const value: unknown = JSON.parse(view.toString('utf8'));
    return isTable(value) ? value : null;
  } catch {
    return null;
  }
}

const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The bytes of the body, or why they cannot be read. */
function readBody(body: unknown, encoding: unknown): Uint8Array | string {
  if (typeof body !== 'string') return 'its body is not a text';
  if (encoding === undefined || encoding === null) return new Uint8Array(Buffer.from(body));
  if (encoding !== 'base64') return 'its body is encoded in a way that kombu does not use';
  const bytes = Buffer.from(body, 'base64');
  // The decoder skips invalid characters, and would return another body.
  const isWhole = Math.ceil(bytes.length / 3) * 4 === body.length;
  return isWhole ? bytes : 'its body is not base64';
}
