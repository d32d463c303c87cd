import type { WireMessage } from '../../wire/message.ts';

/** Where a message goes, and the message. */
export interface Publication extends WireMessage {
  readonly exchange: string;
  readonly routingKey: string;
}

const [METHOD, HEADER, BODY, END] = [1, 2, 3, 0xce];
const FRAME_BYTES = 8;
const BASIC = 60;
const PUBLISH = 40;
const MANDATORY = 1;
const PERSISTENT = 2;
/** Content type, encoding, headers, delivery mode, priority, correlation id; the next bit is `reply to`. */
const FLAGS = 0xfc00;
const REPLY_TO = 0x0200;

/** A header table that does not fit here is larger than any server takes. */
const SCRATCH_BYTES = 131_072;

/**
 * Writes `basic.publish` with its frames into one buffer. Each header costs amqplib's own encoder several calls and an
 * object; a relay spends half its time there. Type tags are those of Celery's py-amqp, which every client reads:
 * integers as `I`, because it takes amqplib's 16-bit `s` for a short text.
 */
export class FrameWriter {
  readonly #bytes = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  readonly #names = new Map<string, Buffer>();
  #at = 0;

  /** All frames of a message. Throws, having written nothing, what cannot be put into frames of `frameMax` bytes. */
  write(channel: number, publication: Publication, frameMax: number): Buffer {
    const { body } = publication;
    this.#at = 0;
    this.#method(channel, publication);
    const headerStart = this.#at;
    this.#header(channel, publication);
    if (this.#at - headerStart > frameMax)
      throw new RangeError(`headers of ${this.#at - headerStart} bytes do not fit into a frame`);
    const most = frameMax - FRAME_BYTES;
    const frames = Math.ceil(body.length / most);
    const all = Buffer.allocUnsafe(this.#at + body.length + frames * FRAME_BYTES);
    this.#bytes.copy(all, 0, 0, this.#at);
    let at = this.#at;
    for (let start = 0; start < body.length; start += most) {
      const part = body.subarray(start, start + most);
      at = frameHead(all, at, BODY, channel);
      all.writeUInt32BE(part.length, at - 4);
      all.set(part, at);
      at += part.length;
      all[at++] = END;
    }
    return all;
  }

  #method(channel: number, { exchange, routingKey }: Publication): void {
    const start = this.#frame(METHOD, channel);
    this.#uint16(BASIC);
    this.#uint16(PUBLISH);
    this.#uint16(0);
    this.#shortText(exchange);
    this.#shortText(routingKey);
    this.#octet(MANDATORY);
    this.#end(start);
  }

  #header(channel: number, { properties, headers, body }: Publication): void {
    const { replyTo } = properties;
    const start = this.#frame(HEADER, channel);
    this.#uint16(BASIC);
    this.#uint16(0);
    this.#at = this.#bytes.writeBigUInt64BE(BigInt(body.length), this.#room(8));
    this.#uint16(replyTo === undefined ? FLAGS : FLAGS | REPLY_TO);
    this.#shortText(properties.contentType);
    this.#shortText(properties.contentEncoding);
    this.#table(headers);
    this.#octet(PERSISTENT);
    this.#octet(properties.priority);
    this.#shortText(properties.correlationId);
    if (replyTo !== undefined) this.#shortText(replyTo);
    this.#end(start);
  }

  #table(table: Readonly<Record<string, unknown>>): void {
    const start = this.#room(4);
    this.#at += 4;
    for (const name in table) {
      if (table[name] === undefined) continue;
      this.#name(name);
      this.#value(table[name]);
    }
    this.#bytes.writeUInt32BE(this.#at - start - 4, start);
  }

  #value(value: unknown): void {
    if (typeof value === 'string') return this.#longText(value);
    if (value === null) return this.#octet(TAG.void);
    if (typeof value === 'number') return this.#number(value);
    if (typeof value === 'boolean') {
      this.#octet(TAG.boolean);
      return this.#octet(value ? 1 : 0);
    }
    if (Array.isArray(value)) return this.#array(value);
    if (typeof value !== 'object') throw new TypeError(`a ${typeof value} is no header`);
    this.#octet(TAG.table);
    this.#table(value as Readonly<Record<string, unknown>>);
  }

  #array(values: readonly unknown[]): void {
    this.#octet(TAG.array);
    const start = this.#room(4);
    this.#at += 4;
    for (const value of values) this.#value(value ?? null);
    this.#bytes.writeUInt32BE(this.#at - start - 4, start);
  }

  #number(value: number): void {
    if ((value | 0) === value) {
      this.#octet(TAG.int32);
      this.#at = this.#bytes.writeInt32BE(value, this.#room(4));
    } else if (Number.isSafeInteger(value)) {
      this.#octet(TAG.int64);
      this.#at = this.#bytes.writeBigInt64BE(BigInt(value), this.#room(8));
    } else {
      this.#octet(TAG.double);
      this.#at = this.#bytes.writeDoubleBE(value, this.#room(8));
    }
  }

  /** The names of the protocol come with every message: encoded once. */
  #name(name: string): void {
    let bytes = this.#names.get(name);
    if (bytes === undefined) {
      bytes = Buffer.concat([Buffer.from([0]), Buffer.from(name, 'utf8')]);
      if (bytes.length > 256) throw new RangeError('the name of a header is longer than 255 bytes');
      bytes[0] = bytes.length - 1;
      if (this.#names.size < MOST_NAMES) this.#names.set(name, bytes);
    }
    this.#bytes.set(bytes, this.#room(bytes.length));
    this.#at += bytes.length;
  }

  #longText(text: string): void {
    this.#octet(TAG.text);
    const start = this.#room(4 + 3 * text.length);
    const length = this.#bytes.write(text, start + 4);
    this.#bytes.writeUInt32BE(length, start);
    this.#at = start + 4 + length;
  }

  #shortText(text: string): void {
    const start = this.#room(1 + 3 * text.length);
    const length = this.#bytes.write(text, start + 1);
    if (length > 255)
      throw new RangeError(`${JSON.stringify(text.slice(0, 60))}… is longer than 255 bytes`);
    this.#bytes[start] = length;
    this.#at = start + 1 + length;
  }

  #frame(type: number, channel: number): number {
    const start = this.#room(FRAME_BYTES);
    this.#at = frameHead(this.#bytes, start, type, channel);
    return start;
  }

  #end(start: number): void {
    this.#bytes.writeUInt32BE(this.#at - start - 7, start + 3);
    this.#octet(END);
  }

  #octet(value: number): void {
    this.#bytes[this.#room(1)] = value;
    this.#at += 1;
  }

  #uint16(value: number): void {
    this.#at = this.#bytes.writeUInt16BE(value, this.#room(2));
  }

  /** Where the next bytes go, when there are as many as that. */
  #room(bytes: number): number {
    if (this.#at + bytes > SCRATCH_BYTES) throw new RangeError('its headers are too large');
    return this.#at;
  }
}

/** Names of users are many; those of the protocol are thirty. */
const MOST_NAMES = 200;

const TAG = {
  text: 0x53,
  int32: 0x49,
  int64: 0x6c,
  double: 0x64,
  boolean: 0x74,
  void: 0x56,
  array: 0x41,
  table: 0x46,
} as const;

/** Type and channel; the length follows when it is known. Returns where the payload begins. */
function frameHead(bytes: Buffer, at: number, type: number, channel: number): number {
  bytes[at] = type;
  bytes.writeUInt16BE(channel, at + 1);
  return at + 7;
}
