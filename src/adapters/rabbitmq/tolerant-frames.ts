import { fromTable } from './field-table.ts';

/** The part of amqplib's connection that frames come through. Not in its types; a test holds it to that. */
interface FrameSource {
  rest: Buffer;
  recvFrame(): unknown;
}

const HEADER_FRAME = 2;
const FRAME_HEADER_BYTES = 7;
const BASIC_CLASS = 60;

/**
 * A header that amqplib cannot read costs it the connection, and RabbitMQ delivers the message again to the next one:
 * one message of a Python producer would keep everybody from consuming. With this such a message is read by
 * ourselves, or comes without headers and is buried.
 */
export function tolerateFrames(connection: unknown): void {
  const source = connection as Partial<FrameSource>;
  const original = source.recvFrame;
  if (typeof original !== 'function' || !Buffer.isBuffer(source.rest)) return;
  source.recvFrame = function (this: FrameSource): unknown {
    const before = this.rest;
    try {
      return original.call(this);
    } catch (error) {
      // The frame is taken off `rest` before it is read, so the next call goes on after it.
      const isTakenOff = this.rest !== before && before[0] === HEADER_FRAME;
      if (!isTakenOff) throw error;
      return readHeaderFrame(before);
    }
  };
}

function readHeaderFrame(bytes: Buffer): unknown {
  const channel = bytes.readUInt16BE(1);
  const size = bytes.readUInt32BE(3);
  const payload = bytes.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + size);
  return {
    id: BASIC_CLASS,
    channel,
    size: Number(payload.readBigUInt64BE(4)),
    fields: readProperties(payload.subarray(12)),
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

/** Properties up to what cannot be read; headers that cannot be are none. */
export function readProperties(bytes: Buffer): Record<string, unknown> {
  const flags = bytes.readUInt16BE(0);
  const fields: Record<string, unknown> = {};
  let at = 2;
  for (const [index, [name, kind]] of PROPERTIES.entries()) {
    if ((flags & (1 << (15 - index))) === 0) continue;
    const length = lengthOf(kind, bytes, at);
    fields[name] = readProperty(kind, bytes.subarray(at, at + length));
    at += length;
  }
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

function readProperty(kind: Kind, part: Buffer): unknown {
  switch (kind) {
    case 'text':
      return part.toString('utf8', 1);
    case 'octet':
      return part.readUInt8(0);
    case 'time':
      return Number(part.readBigUInt64BE(0));
    case 'table':
      try {
        return fromTable(part.subarray(4));
      } catch {
        return undefined;
      }
  }
}
