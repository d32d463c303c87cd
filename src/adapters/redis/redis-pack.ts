/** Values passed to and from scripts. Texts and bytes are the same there. */
export type Packable =
  | string
  | Uint8Array
  | number
  | boolean
  | readonly Packable[]
  | ReadonlyMap<string, number>
  | PackedBytes
  | Column;

/** Values that a script gets as one byte string: it can pass them on without unpacking them. */
export class PackedBytes {
  readonly values: readonly Packable[];

  constructor(values: readonly Packable[]) {
    this.values = values;
  }
}

/** A list whose entries are written one by one, without an object for each of hundreds of tasks. */
export class Column {
  readonly length: number;
  readonly putAt: (packer: Packer, index: number) => void;

  constructor(length: number, putAt: (packer: Packer, index: number) => void) {
    this.length = length;
    this.putAt = putAt;
  }
}

/** Unpacked values: texts come back as bytes. */
export type Unpacked = Buffer | number | boolean | null | readonly Unpacked[];

/**
 * The part of MessagePack that Redis's `cmsgpack` and we need. One argument holds a whole batch: the driver would spend
 * more time on hundreds of small ones than we do on the rest.
 */
export function pack(value: Packable): Buffer {
  const packer = new Packer();
  packer.put(value);
  return packer.bytes();
}

const FIRST_BYTES = 4_096;
/** Up to here a loop is faster than two runtime calls. */
const SHORT_TEXT = 64;

export class Packer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  put(value: Packable): void {
    if (typeof value === 'string') this.#putText(value);
    else if (typeof value === 'number') this.#putNumber(value);
    else if (typeof value === 'boolean') this.#putByte(value ? 0xc3 : 0xc2);
    else if (value instanceof Uint8Array) this.#putBytes(value);
    else if (value instanceof Map) this.#putMap(value);
    else if (value instanceof PackedBytes) this.#putPacked(value);
    else if (value instanceof Column) this.#putColumn(value);
    else this.#putArray(value as readonly Packable[]);
  }

  /** Everything put until `close` becomes one byte string. */
  open(): number {
    this.#reserve(5);
    const head = this.#length;
    this.#length += 5;
    return head;
  }

  close(head: number): void {
    this.#buffer[head] = 0xdb;
    this.#buffer.writeUInt32BE(this.#length - head - 5, head + 1);
  }

  /** A byte string of this byte and the decoded digits. */
  putHex(first: number, digits: string): void {
    const size = 1 + digits.length / 2;
    this.#reserve(size + 5);
    this.#putLength(size);
    this.#buffer[this.#length] = first;
    this.#length += 1 + this.#buffer.write(digits, this.#length + 1, 'hex');
  }

  #putArray(values: readonly Packable[]): void {
    this.#putCount(values.length);
    for (const value of values) this.put(value);
  }

  #putColumn({ length, putAt }: Column): void {
    this.#putCount(length);
    for (let index = 0; index < length; index++) putAt(this, index);
  }

  #putCount(length: number): void {
    if (length < 16) this.#putByte(0x90 | length);
    else this.#putHead(0xdc, length);
  }

  #putPacked({ values }: PackedBytes): void {
    const head = this.open();
    for (const value of values) this.put(value);
    this.close(head);
  }

  #putMap(map: ReadonlyMap<string, number>): void {
    this.#putHead(0xde, map.size);
    for (const [key, value] of map) {
      this.#putText(key);
      this.#putNumber(value);
    }
  }

  /** The short form if the length fits 16 bits, else the next one. */
  #putHead(tag: number, length: number): void {
    this.#reserve(5);
    if (length < 0x1_0000) {
      this.#buffer[this.#length] = tag;
      this.#length = this.#buffer.writeUInt16BE(length, this.#length + 1);
    } else {
      this.#buffer[this.#length] = tag + 1;
      this.#length = this.#buffer.writeUInt32BE(length, this.#length + 1);
    }
  }

  #putText(text: string): void {
    // At most three bytes per UTF-16 unit, so that the size of the length prefix is known in advance.
    this.#reserve(text.length * 3 + 5);
    if (text.length < SHORT_TEXT && this.#putAscii(text)) return;
    const size = Buffer.byteLength(text);
    this.#putLength(size);
    this.#length += this.#buffer.write(text, this.#length);
  }

  /** False: it is not ASCII, and nothing was put. */
  #putAscii(text: string): boolean {
    const start = this.#length;
    this.#putLength(text.length);
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) {
        this.#length = start;
        return false;
      }
      this.#buffer[this.#length++] = code;
    }
    return true;
  }

  #putBytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length + 5);
    this.#putLength(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #putLength(size: number): void {
    if (size < 32) this.#putByte(0xa0 | size);
    else this.#putHead(0xda, size);
  }

  #putNumber(value: number): void {
    if (Number.isInteger(value) && value >= 0 && value < 128) return this.#putByte(value);
    this.#reserve(9);
    this.#buffer[this.#length] = 0xcb;
    this.#length = this.#buffer.writeDoubleBE(value, this.#length + 1);
  }

  #putByte(byte: number): void {
    this.#reserve(1);
    this.#buffer[this.#length] = byte;
    this.#length += 1;
  }

  #reserve(size: number): void {
    if (this.#length + size <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + size));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

/** Reads the output of `cmsgpack.pack`. Bytes are views of the input. */
export function unpack(bytes: Buffer): Unpacked {
  return new Unpacker(bytes).take();
}

class Unpacker {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(): Unpacked {
    const tag = this.#uint(1);
    if (tag < 0x80) return tag;
    if (tag >= 0xe0) return tag - 0x100;
    if (tag >= 0xa0 && tag < 0xc0) return this.#raw(tag & 0x1f);
    if (tag >= 0x90 && tag < 0xa0) return this.#array(tag & 0x0f);
    return this.#takeTagged(tag);
  }

  #takeTagged(tag: number): Unpacked {
    switch (tag) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return this.#bytes.readFloatBE(this.#skip(4));
      case 0xcb:
        return this.#bytes.readDoubleBE(this.#skip(8));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return this.#uint(1 << (tag - 0xcc));
      case 0xcf:
        return Number(this.#bytes.readBigUInt64BE(this.#skip(8)));
      case 0xd0:
      case 0xd1:
      case 0xd2:
        return this.#int(1 << (tag - 0xd0));
      case 0xd3:
        return Number(this.#bytes.readBigInt64BE(this.#skip(8)));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#raw(this.#uint(1 << (tag - 0xd9)));
      case 0xdc:
        return this.#array(this.#uint(2));
      default:
        throw new Error(`a record of the ledger holds the tag ${tag}`);
    }
  }

  #array(length: number): readonly Unpacked[] {
    return Array.from({ length }, () => this.take());
  }

  #raw(length: number): Buffer {
    const from = this.#skip(length);
    return this.#bytes.subarray(from, from + length);
  }

  #uint(size: number): number {
    return this.#bytes.readUIntBE(this.#skip(size), size);
  }

  #int(size: number): number {
    return this.#bytes.readIntBE(this.#skip(size), size);
  }

  #skip(size: number): number {
    const from = this.#at;
    this.#at += size;
    return from;
  }
}
