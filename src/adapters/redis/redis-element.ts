import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { UndecodableMessage } from '../../broker/broker.ts';
import type { Envelope } from '../../task/envelope.ts';
import { decodeMessage } from '../../wire/decode-message.ts';
import { readOptions } from '../../task/read-options.ts';
import { encodeMessage } from '../../wire/encode-message.ts';
import { celeryPriority, placeOf, STEPS } from './redis-keys.ts';

/** A message as an element of a list: one JSON document, as kombu writes it. */
export interface Element {
  /** The place of its list among those of the queue. */
  readonly place: number;
  readonly text: string;
  /** Where it was addressed to, when that is not its queue. */
  readonly route: { readonly exchange: string; readonly routingKey: string } | null;
}

const [TRANSIENT, PERSISTENT] = [1, 2];

/** Throws for a message that no broker takes. */
export function encodeElement(envelope: Envelope, origin: string): Element {
  const options = readOptions(envelope);
  const { headers, properties, body } = encodeMessage(envelope, origin, options);
  const priority = celeryPriority(properties.priority);
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
      // The key under which kombu remembers what it has not acknowledged: one for each copy.
      delivery_tag: randomUUID(),
    },
  });
  const route = exchange === '' ? null : { exchange, routingKey };
  return { place: placeOf(priority), text, route };
}

/** Reads an element of anybody's. Never throws: what cannot be read says so, with its bytes. */
export function decodeElement(
  bytes: Uint8Array,
  queue: string,
  place: number,
): Envelope | UndecodableMessage {
  const parts = readParts(bytes);
  if (typeof parts === 'string') return { raw: new Uint8Array(bytes), queue, why: parts };
  const { element, properties, body } = parts;
  const priority = properties['priority'];
  return decodeMessage({
    headers: element['headers'],
    properties: {
      contentType: element['content-type'],
      contentEncoding: element['content-encoding'] ?? undefined,
      priority: celeryPriority(typeof priority === 'number' ? priority : (STEPS[place] ?? 0)),
      correlationId: properties['correlation_id'],
      replyTo: properties['reply_to'],
    },
    body,
    queue,
  });
}

/** An answer or an event: not a task, and worth nothing after a restart. */
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

/** The parts of an element, or why it has none. */
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

/** The bytes of the body, or why there are none. */
function readBody(body: unknown, encoding: unknown): Uint8Array | string {
  if (typeof body !== 'string') return 'its body is not a text';
  if (encoding === undefined || encoding === null) return new Uint8Array(Buffer.from(body));
  if (encoding !== 'base64') return 'its body is encoded in a way that kombu does not use';
  const bytes = Buffer.from(body, 'base64');
  // The decoder passes over what does not belong there, and another body would come out.
  const isWhole = Math.ceil(bytes.length / 3) * 4 === body.length;
  return isWhole ? bytes : 'its body is not base64';
}
