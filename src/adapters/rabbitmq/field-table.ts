/** Far more than any message has header names: two names in one slot would keep evicting each other. */
const SLOTS = 1_024;
/** Longer texts are ids, digests and values, which do not repeat. */
const LONGEST = 32;

interface Known {
  readonly bytes: Buffer;
  readonly text: string;
}

/**
 * Texts that come with every message: names of headers, tasks and senders. Decoding bytes takes longer than finding the
 * text decoded last time.
 */
class KnownTexts {
  readonly #slots: (Known | null)[] = Array.from({ length: SLOTS }, () => null);

  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from;
    if (length === 0) return '';
    if (length > LONGEST) return bytes.toString('utf8', from, to);
    const slot = slotOf(bytes, from, length);
    const known = this.#slots[slot] as Known | null;
    if (known !== null && isSame(known.bytes, bytes, from, to)) return known.text;
    const text = bytes.toString('utf8', from, to);
    this.#slots[slot] = { bytes: Buffer.from(bytes.subarray(from, to)), text };
    return text;
  }
}

/** Hashes the length and four of the bytes. */
function slotOf(bytes: Buffer, from: number, length: number): number {
  let mixed = length;
  mixed = mixed * 31 + (bytes[from] as number);
  mixed = mixed * 31 + (bytes[from + (length >> 2)] as number);
  mixed = mixed * 31 + (bytes[from + (length >> 1)] as number);
  mixed = mixed * 31 + (bytes[from + length - 1] as number);
  return mixed % SLOTS;
}

function isSame(known: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false;
  for (let at = 0; at < known.length; at++) if (known[at] !== bytes[from + at]) return false;
  return true;
}

const known = new KnownTexts();

/**
 * Reads AMQP field tables, also from other clients: Celery's py-amqp writes a large integer as `L`, which amqplib does
 * not know.
 */
class FieldReader {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Buffer, from: number, end: number) {
    this.#bytes = bytes;
    this.#at = from;
    this.#end = end;
  }

  /** Every key becomes an own property, `__proto__` too. */
  table(): Record<string, unknown> {
    const fields: Record<string, unknown> = {};
    while (this.#at < this.#end) {
      const key = this.#short();
      const value = this.#value();
      if (key === '__proto__')
        Object.defineProperty(fields, key, { value, enumerable: true, configurable: true });
      else fields[key] = value;
    }
    return fields;
  }

  #array(): unknown[] {
    const values: unknown[] = [];
    while (this.#at < this.#end) values.push(this.#value());
    return values;
  }

  /** Reads a value by its tag. A `bigint` would hold all 64 bits, but no known header needs one. */
  #value(): unknown {
    const bytes = this.#bytes;
    const tag = bytes[this.#skip(1)] as number;
    switch (String.fromCharCode(tag)) {
      case 'S':
        return this.#long();
      case 'V':
        return null;
      case 't':
        return bytes[this.#skip(1)] !== 0;
      case 'b':
        return bytes.readInt8(this.#skip(1));
      case 'B':
        return bytes[this.#skip(1)];
      case 's':
      case 'U':
        return bytes.readInt16BE(this.#skip(2));
      case 'u':
        return bytes.readUInt16BE(this.#skip(2));
      case 'I':
        return bytes.readInt32BE(this.#skip(4));
      case 'i':
        return bytes.readUInt32BE(this.#skip(4));
      case 'f':
        return bytes.readFloatBE(this.#skip(4));
      default:
        return this.#rareValue(tag);
    }
  }

  #rareValue(tag: number): unknown {
    const bytes = this.#bytes;
    switch (String.fromCharCode(tag)) {
      case 'l':
      case 'L':
        return Number(bytes.readBigInt64BE(this.#skip(8)));
      case 'd':
        return bytes.readDoubleBE(this.#skip(8));
      case 'T':
        return Number(bytes.readBigUInt64BE(this.#skip(8)));
      case 'D': {
        const at = this.#skip(5);
        return bytes.readInt32BE(at + 1) / 10 ** bytes.readUInt8(at);
      }
      case 'x': {
        const from = this.#blob();
        return bytes.subarray(from, this.#at);
      }
      case 'F':
        return new FieldReader(bytes, this.#blob(), this.#at).table();
      case 'A':
        return new FieldReader(bytes, this.#blob(), this.#at).#array();
      default:
        throw new TypeError(`a field of the unknown type ${tag}`);
    }
  }

  #short(): string {
    const size = this.#bytes[this.#skip(1)] as number;
    const from = this.#skip(size);
    return known.read(this.#bytes, from, this.#at);
  }

  #long(): string {
    const from = this.#blob();
    return known.read(this.#bytes, from, this.#at);
  }

  /** The start of a value that is prefixed with its length. */
  #blob(): number {
    return this.#skip(this.#bytes.readUInt32BE(this.#skip(4)));
  }

  #skip(size: number): number {
    const from = this.#at;
    this.#at += size;
    if (this.#at > this.#end) throw new RangeError('a field is longer than its table');
    return from;
  }
}

/** The fields of a table, without its length prefix. */
export function readTable(bytes: Buffer, from: number, end: number): Record<string, unknown> {
  return new FieldReader(bytes, from, end).table();
}

/** A text prefixed with its length in one byte. */
export function readShortText(bytes: Buffer, at: number): string {
  const from = at + 1;
  return known.read(bytes, from, Math.min(from + bytes.readUInt8(at), bytes.length));
}

/**
 * Headers for amqplib's own encoder, with integers that Celery's py-amqp can read. By default amqplib writes a small one
 * as `b`, which py-amqp reads as unsigned, and a 16-bit one as `s`, which py-amqp takes for a text: it cannot read that
 * message at all, and a worker that receives it while starting exits.
 */
export function toDriverTable(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, toDriverField(value)]),
  );
}

function toDriverField(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(each => toDriverField(each ?? null));
  if (typeof value === 'number') return toDriverNumber(value);
  const isTable = typeof value === 'object' && value !== null && !Buffer.isBuffer(value);
  return isTable ? toDriverTable(value as Readonly<Record<string, unknown>>) : value;
}

/** py-amqp reads 64 bits as unsigned, all other clients as signed: a negative integer of that size is sent as a double. */
function toDriverNumber(value: number): unknown {
  if (isInt32(value)) return { '!': 'int', value };
  return { '!': isInt64(value) ? 'long' : 'double', value };
}

/** Whether it is written as signed 32 bits. Minus zero is not an integer. */
export function isInt32(value: number): boolean {
  return (value | 0) === value && !Object.is(value, -0);
}

/** Whether it is written as 64 bits. */
export function isInt64(value: number): boolean {
  return value > 0 && Number.isSafeInteger(value);
}
