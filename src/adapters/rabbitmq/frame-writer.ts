import type { WireMessage } from '../../wire/message.ts';
import { isInt32, isInt64, toDriverTable } from './field-table.ts';
import type { ConfirmChannel } from 'amqplib';

/** A message and its destination. */
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

/** Headers that do not fit here are larger than any server accepts. */
const MOST_HEAD_BYTES = 131_072;
/** Gather at least this much, if there is as much, before it should be taken. */
const ENOUGH_BYTES = 65_536;
/** A larger body bypasses the scratch buffer. */
const LARGE_BODY_BYTES = 16_384;
const SCRATCH_BYTES = ENOUGH_BYTES + MOST_HEAD_BYTES + 2 * LARGE_BODY_BYTES;

/**
 * Writes `basic.publish` with its frames, many messages into one buffer: a socket write costs more than a message, and
 * amqplib's own encoder spends several calls and an object on each header. Type tags are those of Celery's py-amqp,
 * which every client reads: integers as `I`, because py-amqp takes amqplib's 16-bit `s` for a short text.
 */
export class FrameWriter {
  readonly #bytes = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  readonly #names = new Map<string, Uint8Array>();
  /** Written before the current scratch buffer was started. */
  #full: Buffer[] = [];
  #at = 0;
  /** The index at which the headers of this message must end. */
  #limit = 0;

  /** Enough was gathered to be taken. */
  get hasEnough(): boolean {
    return this.#at >= ENOUGH_BYTES || this.#full.length > 0;
  }

  /** Adds all frames of a message. Throws, and adds nothing, if it cannot be put into frames of `frameMax` bytes. */
  add(channel: number, publication: Publication, frameMax: number): void {
    const start = this.#at;
    try {
      this.#limit = start + MOST_HEAD_BYTES;
      this.#method(channel, publication);
      const headerStart = this.#at;
      this.#header(channel, publication);
      if (this.#at - headerStart > frameMax)
        throw new RangeError(`headers of ${this.#at - headerStart} bytes do not fit into a frame`);
    } catch (error) {
      this.#at = start;
      throw error;
    }
    this.#body(channel, publication.body, frameMax - FRAME_BYTES);
    if (this.#at >= ENOUGH_BYTES) this.#begin();
  }

  /** Everything added since the last call, in order. */
  take(): readonly Buffer[] {
    this.#begin();
    const taken = this.#full;
    this.#full = [];
    return taken;
  }

  /** A socket may keep a reference to what it was given, so it gets a copy. */
  #begin(): void {
    if (this.#at > 0) this.#full.push(Buffer.from(this.#bytes.subarray(0, this.#at)));
    this.#at = 0;
  }

  #body(channel: number, body: Uint8Array, most: number): void {
    if (body.length === 0) return;
    if (body.length <= LARGE_BODY_BYTES && body.length <= most) {
      this.#at = writeBodyFrame(this.#bytes, this.#at, channel, body);
      return;
    }
    this.#begin();
    const frames = Math.ceil(body.length / most);
    const all = Buffer.allocUnsafe(body.length + frames * FRAME_BYTES);
    let at = 0;
    for (let from = 0; from < body.length; from += most)
      at = writeBodyFrame(all, at, channel, body.subarray(from, from + most));
    this.#full.push(all);
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
    this.#uint32(0);
    this.#uint32(body.length);
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
    const start = this.#reserve(4);
    this.#at += 4;
    for (const name in table) {
      if (table[name] === undefined) continue;
      this.#name(name);
      this.#value(table[name]);
    }
    putUint32(this.#bytes, start, this.#at - start - 4);
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
    const start = this.#reserve(4);
    this.#at += 4;
    for (const value of values) this.#value(value ?? null);
    putUint32(this.#bytes, start, this.#at - start - 4);
  }

  #number(value: number): void {
    if (isInt32(value)) {
      this.#octet(TAG.int32);
      this.#uint32(value);
    } else if (isInt64(value)) {
      this.#octet(TAG.int64);
      this.#at = this.#bytes.writeBigInt64BE(BigInt(value), this.#reserve(8));
    } else {
      this.#octet(TAG.double);
      this.#at = this.#bytes.writeDoubleBE(value, this.#reserve(8));
    }
  }

  /** The protocol's names come with every message: they are encoded once. */
  #name(name: string): void {
    let bytes = this.#names.get(name);
    if (bytes === undefined) {
      bytes = Buffer.concat([Buffer.from([0]), Buffer.from(name, 'utf8')]);
      if (bytes.length > 256) throw new RangeError('the name of a header is longer than 255 bytes');
      bytes[0] = bytes.length - 1;
      if (this.#names.size < MOST_NAMES) this.#names.set(name, bytes);
    }
    const start = this.#reserve(bytes.length);
    // Byte by byte: for so few that is faster than a call of `set`.
    for (let at = 0; at < bytes.length; at++) this.#bytes[start + at] = bytes[at] as number;
    this.#at = start + bytes.length;
  }

  #longText(text: string): void {
    this.#octet(TAG.text);
    const start = this.#reserve(4 + 3 * text.length);
    const length = this.#text(text, start + 4);
    putUint32(this.#bytes, start, length);
    this.#at = start + 4 + length;
  }

  #shortText(text: string): void {
    const start = this.#reserve(1 + 3 * text.length);
    const length = this.#text(text, start + 1);
    if (length > 255)
      throw new RangeError(`${JSON.stringify(text.slice(0, 60))}… is longer than 255 bytes`);
    this.#bytes[start] = length;
    this.#at = start + 1 + length;
  }

  /** Writes a text and returns its length in bytes. Most are short and ASCII, for which calling `write` is slow. */
  #text(text: string, start: number): number {
    if (text.length > SHORT_TEXT) return this.#bytes.write(text, start);
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code > 0x7f) return this.#bytes.write(text, start);
      this.#bytes[start + at] = code;
    }
    return text.length;
  }

  #frame(type: number, channel: number): number {
    const start = this.#reserve(FRAME_BYTES);
    this.#at = frameHead(this.#bytes, start, type, channel);
    return start;
  }

  #end(start: number): void {
    putUint32(this.#bytes, start + 3, this.#at - start - 7);
    this.#octet(END);
  }

  #octet(value: number): void {
    this.#bytes[this.#reserve(1)] = value;
    this.#at += 1;
  }

  #uint16(value: number): void {
    const start = this.#reserve(2);
    this.#bytes[start] = value >>> 8;
    this.#bytes[start + 1] = value;
    this.#at = start + 2;
  }

  #uint32(value: number): void {
    putUint32(this.#bytes, this.#reserve(4), value);
    this.#at += 4;
  }

  /** The index for the next bytes; throws if so many do not fit. */
  #reserve(bytes: number): number {
    if (this.#at + bytes > this.#limit) throw new RangeError('its headers are too large');
    return this.#at;
  }
}

/** User header names are unbounded; the protocol has thirty. */
const MOST_NAMES = 200;
/** For longer ones the runtime is faster. */
const SHORT_TEXT = 80;

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

function writeBodyFrame(bytes: Buffer, start: number, channel: number, body: Uint8Array): number {
  const at = frameHead(bytes, start, BODY, channel);
  putUint32(bytes, at - 4, body.length);
  bytes.set(body, at);
  bytes[at + body.length] = END;
  return at + body.length + 1;
}

/** Type and channel; the length is filled in later. Returns the index of the payload. */
function frameHead(bytes: Buffer, at: number, type: number, channel: number): number {
  bytes[at] = type;
  bytes[at + 1] = channel >>> 8;
  bytes[at + 2] = channel;
  return at + 7;
}

function putUint32(bytes: Buffer, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

type Confirm = (error: unknown) => void;

/** Takes messages to be sent. */
export interface MessageSink {
  /** Adds a message; `confirm` gets its confirmation. Throws when it was not added. */
  add(publication: Publication, confirm: Confirm): void;
  /** Enough was added to send it at once. */
  readonly hasEnough: boolean;
  /** Sends what was added; false when the buffer is full. */
  flush(): boolean;
}

/** The internals of amqplib's channel. Not in its types; a test checks that they are there. */
interface ChannelInside {
  readonly ch: number;
  readonly connection: {
    readonly frameMax: number;
    readonly channels: readonly ({ readonly buffer: { write(chunk: Buffer): boolean } } | null)[];
    sentSinceLastCheck: boolean;
  };
  pushConfirmCallback(confirm: Confirm): void;
}

/** Writes messages to this channel: with our own frames, or through amqplib where its internals differ. */
export function publishOn(channel: ConfirmChannel): MessageSink {
  return publishByFrames(channel) ?? publishByDriver(channel);
}

function publishByFrames(channel: ConfirmChannel): MessageSink | null {
  const inside = channel as unknown as ChannelInside;
  const isKnown =
    typeof inside.ch === 'number' &&
    typeof inside.pushConfirmCallback === 'function' &&
    typeof inside.connection.frameMax === 'number' &&
    typeof inside.connection.channels?.[inside.ch]?.buffer.write === 'function';
  if (!isKnown) return null;
  const writer = new FrameWriter();
  return {
    add: (publication, confirm) => {
      const { connection, ch } = inside;
      if (!connection.channels[ch]) throw new Error('the channel is closed');
      writer.add(ch, publication, connection.frameMax);
      inside.pushConfirmCallback(confirm);
    },
    get hasEnough() {
      return writer.hasEnough;
    },
    flush: () => {
      const { connection, ch } = inside;
      const open = connection.channels[ch];
      let hasRoom = true;
      // If the channel was closed since, everything added has been settled already.
      for (const frames of writer.take()) hasRoom = open?.buffer.write(frames) ?? true;
      connection.sentSinceLastCheck = true;
      return hasRoom;
    },
  };
}

/** Slower, and uses only amqplib's public API. */
export function publishByDriver(channel: ConfirmChannel): MessageSink {
  let hasRoom = true;
  return {
    add: ({ exchange, routingKey, headers, properties, body }, confirm) => {
      const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
      const table = toDriverTable(headers);
      const options = { ...properties, headers: table, mandatory: true, persistent: true };
      hasRoom = channel.publish(exchange, routingKey, content, options, confirm);
    },
    get hasEnough() {
      return !hasRoom;
    },
    flush: () => {
      const had = hasRoom;
      hasRoom = true;
      return had;
    },
  };
}
