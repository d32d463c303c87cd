/**
 * Reads AMQP's field tables, those of other clients too: Celery's py-amqp writes a large integer as `L`, which amqplib
 * does not know.
 */
type Reader = (bytes: Buffer, at: number) => readonly [value: unknown, next: number];

const fixed =
  (size: number, read: (bytes: Buffer, at: number) => unknown): Reader =>
  (bytes, at) => [read(bytes, at), at + size];

const blob =
  (read: (part: Buffer) => unknown): Reader =>
  (bytes, at) => {
    const end = at + 4 + bytes.readUInt32BE(at);
    if (end > bytes.length) throw new RangeError('a field is longer than its table');
    return [read(bytes.subarray(at + 4, end)), end];
  };

/** By tag. A `bigint` would fit 64 bits, but no header of anybody's means one. */
const READERS: Readonly<Record<string, Reader>> = {
  t: fixed(1, (bytes, at) => bytes.readUInt8(at) !== 0),
  b: fixed(1, (bytes, at) => bytes.readInt8(at)),
  B: fixed(1, (bytes, at) => bytes.readUInt8(at)),
  s: fixed(2, (bytes, at) => bytes.readInt16BE(at)),
  U: fixed(2, (bytes, at) => bytes.readInt16BE(at)),
  u: fixed(2, (bytes, at) => bytes.readUInt16BE(at)),
  I: fixed(4, (bytes, at) => bytes.readInt32BE(at)),
  i: fixed(4, (bytes, at) => bytes.readUInt32BE(at)),
  l: fixed(8, (bytes, at) => Number(bytes.readBigInt64BE(at))),
  L: fixed(8, (bytes, at) => Number(bytes.readBigInt64BE(at))),
  f: fixed(4, (bytes, at) => bytes.readFloatBE(at)),
  d: fixed(8, (bytes, at) => bytes.readDoubleBE(at)),
  D: fixed(5, (bytes, at) => bytes.readInt32BE(at + 1) / 10 ** bytes.readUInt8(at)),
  T: fixed(8, (bytes, at) => Number(bytes.readBigUInt64BE(at))),
  V: fixed(0, () => null),
  S: blob(part => part.toString('utf8')),
  x: blob(part => part),
  F: blob(fromTable),
  A: blob(fromArray),
};

/** The fields of a table without its length. Keys are its own, whatever they are called. */
export function fromTable(bytes: Buffer): Record<string, unknown> {
  const entries: [string, unknown][] = [];
  let at = 0;
  while (at < bytes.length) {
    const keyEnd = at + 1 + bytes.readUInt8(at);
    const [value, next] = readField(bytes, keyEnd);
    entries.push([bytes.toString('utf8', at + 1, keyEnd), value]);
    at = next;
  }
  return Object.fromEntries(entries);
}

function fromArray(bytes: Buffer): unknown[] {
  const values: unknown[] = [];
  let at = 0;
  while (at < bytes.length) {
    const [value, next] = readField(bytes, at);
    values.push(value);
    at = next;
  }
  return values;
}

function readField(bytes: Buffer, at: number): readonly [unknown, number] {
  const tag = String.fromCharCode(bytes.readUInt8(at));
  const read = READERS[tag];
  if (read === undefined) throw new TypeError(`a field of the unknown type ${JSON.stringify(tag)}`);
  return read(bytes, at + 1);
}
