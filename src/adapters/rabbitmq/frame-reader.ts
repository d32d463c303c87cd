import { readShortText, readTable } from './field-table.ts';

/** The part of amqplib's connection that receives frames. Not in its types; a test checks that it is there. */
interface FrameSource {
  rest: Buffer;
  maxFrameSize: number;
  recvFrame(): unknown;
}

const [METHOD_FRAME, HEADER_FRAME, BODY_FRAME] = [1, 2, 3];
const FRAME_HEADER_BYTES = 7;
const FRAME_END = 0xce;
const BASIC_CLASS = 60;
const BASIC_DELIVER = 0x3c_003c;

/**
 * Reads the frames of deliveries instead of amqplib, which still reads all others. A header that amqplib cannot read
 * costs it the connection, and RabbitMQ redelivers the message to the next one: a single message of a Python producer
 * would stop all consumers. Here such a message arrives without headers, and is buried. It is also faster: names that
 * come with every message are decoded once.
 */
export function readDeliveries(connection: unknown): void {
  const source = connection as Partial<FrameSource>;
  const original = source.recvFrame;
  if (typeof original !== 'function' || !Buffer.isBuffer(source.rest)) return;
  let [bytes, at] = [source.rest, 0];
  source.recvFrame = function (this: FrameSource): unknown {
    // amqplib has read something itself.
    if (this.rest !== bytes) [bytes, at] = [this.rest, 0];
    const end = frameEnd(bytes, at, this.maxFrameSize);
    const frame = end === null ? null : readFrame(bytes, at, end);
    if (end === null || frame === null) {
      this.rest = bytes.subarray(at);
      return original.call(this);
    }
    at = end + 1;
    return frame;
  };
}

/** The index of a frame's last byte; null: it is incomplete, or not a frame. */
function frameEnd(bytes: Buffer, at: number, most: number): number | null {
  if (at + FRAME_HEADER_BYTES > bytes.length) return null;
  const size = bytes.readUInt32BE(at + 3);
  const end = at + FRAME_HEADER_BYTES + size;
  return (most > 0 && size > most) || bytes[end] !== FRAME_END ? null : end;
}

/** The frame as amqplib would have read it; null: leave it to amqplib. */
function readFrame(bytes: Buffer, at: number, end: number): unknown {
  const channel = bytes.readUInt16BE(at + 1);
  const from = at + FRAME_HEADER_BYTES;
  switch (bytes[at]) {
    case METHOD_FRAME:
      return bytes.readUInt32BE(from) === BASIC_DELIVER
        ? { id: BASIC_DELIVER, channel, fields: readDelivery(bytes, from + 4) }
        : null;
    case HEADER_FRAME: {
      const size = Number(bytes.readBigUInt64BE(from + 4));
      return { id: BASIC_CLASS, channel, size, fields: readProperties(bytes, from + 12, end) };
    }
    case BODY_FRAME:
      return { channel, content: bytes.subarray(from, end) };
    default:
      return null;
  }
}

function readDelivery(bytes: Buffer, from: number): Record<string, unknown> {
  const tagAt = from + 1 + bytes.readUInt8(from);
  const exchangeAt = tagAt + 9;
  return {
    consumerTag: readShortText(bytes, from),
    deliveryTag: Number(bytes.readBigUInt64BE(tagAt)),
    redelivered: bytes[tagAt + 8] !== 0,
    exchange: readShortText(bytes, exchangeAt),
    routingKey: readShortText(bytes, exchangeAt + 1 + bytes.readUInt8(exchangeAt)),
  };
}

type Kind = 'text' | 'table' | 'octet' | 'time';

/** In the order of their flags, highest bit first. */
const PROPERTIES: readonly (readonly [name: string, kind: Kind])[] = [
  ['contentType', 'text'],
  ['contentEncoding', 'text'],
  ['headers', 'table'],
  ['deliveryMode', 'octet'],
  ['priority', 'octet'],
  ['correlationId', 'text'],
  ['replyTo', 'text'],
  ['expiration', 'text'],
  ['messageId', 'text'],
  ['timestamp', 'time'],
  ['type', 'text'],
  ['userId', 'text'],
  ['appId', 'text'],
  ['clusterId', 'text'],
];
const HIGHEST_BIT = 0x80_00;

/** Properties up to the first unreadable one; unreadable headers are left out. */
export function readProperties(bytes: Buffer, from: number, end: number): Record<string, unknown> {
  const flags = bytes.readUInt16BE(from);
  const fields: Record<string, unknown> = {};
  let at = from + 2;
  for (let index = 0; index < PROPERTIES.length; index++) {
    if ((flags & (HIGHEST_BIT >> index)) === 0) continue;
    const [name, kind] = PROPERTIES[index] as (typeof PROPERTIES)[number];
    const next = at + lengthOf(kind, bytes, at);
    fields[name] = readProperty(kind, bytes, at, Math.min(next, end));
    at = next;
  }
  if (at > end) throw new RangeError('properties are longer than their frame');
  return fields;
}

function lengthOf(kind: Kind, bytes: Buffer, at: number): number {
  switch (kind) {
    case 'text':
      return 1 + bytes.readUInt8(at);
    case 'table':
      return 4 + bytes.readUInt32BE(at);
    case 'octet':
      return 1;
    case 'time':
      return 8;
  }
}

function readProperty(kind: Kind, bytes: Buffer, at: number, end: number): unknown {
  switch (kind) {
    case 'text':
      return readShortText(bytes, at);
    case 'octet':
      return bytes.readUInt8(at);
    case 'time':
      return Number(bytes.readBigUInt64BE(at));
    case 'table':
      try {
        return readTable(bytes, at + 4, end);
      } catch {
        return undefined;
      }
  }
}
