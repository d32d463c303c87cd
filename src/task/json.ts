import { parse } from 'lossless-json';
import { outlastError } from '../errors/error.ts';
import { MAX_JSON_DIGITS } from './json-limits.ts';
import { encodeBytes, markNotFinite, mayHoldMarks, readMarks, type Reading } from './typed-json.ts';

/**
 * T itself where JSON carries it unchanged, `never` where it would not: a `Date` would come back as
 * text, a `Map` as `{}`, a function not at all. A `bigint` is a JSON integer, a `Uint8Array` is marked as kombu marks bytes.
 */
export type Jsonable<T> = T extends
  | string
  | number
  | boolean
  | null
  | undefined
  | bigint
  | Uint8Array
  ? T
  : T extends symbol | Date | RegExp | ((...args: never) => unknown)
    ? never
    : T extends
          | ReadonlyMap<unknown, unknown>
          | ReadonlySet<unknown>
          | ArrayBufferView
          | Promise<unknown>
      ? never
      : T extends readonly unknown[]
        ? { readonly [K in keyof T]: Jsonable<T[K]> }
        : T extends object
          ? { readonly [K in keyof T]: Jsonable<T[K]> }
          : unknown extends T
            ? T
            : never;

/** Deeper than real data, and far from where a recursive parser of another language gives up. */
const MAX_DEPTH = 100;

/** A container being written and its current member: enough to report the path of a refused value. */
interface Spot {
  readonly value: object;
  readonly above: Spot | null;
  readonly depth: number;
  key: string | number;
}

function refuse(spot: Spot | null, why: string): never {
  const path = pathOf(spot);
  const where = path === '' ? 'the value' : `\`${path}\``;
  throw outlastError('ERR_INPUT_NOT_JSON', {
    message: `${where} is not JSON: ${why}`,
    hint: 'Send plain objects, arrays, strings, finite numbers, bigint, booleans, Uint8Array and null; convert the rest yourself, for example a Date with toISOString().',
    fields: { path },
  });
}

function pathOf(spot: Spot | null): string {
  if (spot === null) return '';
  const { above, key } = spot;
  const path = pathOf(above);
  if (typeof key === 'number') return `${path}[${key}]`;
  return path === '' ? key : `${path}.${key}`;
}

/** The JSON text of a value that JSON carries unchanged; throws `ERR_INPUT_NOT_JSON` for any other. */
export function encodeJson(value: unknown): string {
  return encode(value, null, 'finite') ?? refuse(null, 'it is undefined');
}

/** The same for results, which may also be NaN and Infinity, as Python writes them: its arguments may be that too. */
export function encodeResult(value: unknown): string {
  return encode(value, null, 'any') ?? refuse(null, 'it is undefined');
}

/** Which numbers may be written. */
type Numbers = 'finite' | 'any';

function encode(value: unknown, spot: Spot | null, numbers: Numbers): string | undefined {
  switch (typeof value) {
    case 'string':
      // Escapes NUL and lone surrogates, so both survive any store and any UTF-8 encoder.
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      return encodeBigint(value, spot);
    case 'number':
      if (numbers === 'finite' && !Number.isFinite(value))
        return refuse(spot, `${value} would become null`);
      return encodeNumber(value);
    case 'undefined':
      return undefined;
    case 'object':
      return value === null ? 'null' : encodeObject(value, spot, numbers);
    default:
      return refuse(spot, `a ${typeof value} cannot be sent`);
  }
}

/** An integer beyond 2^53 is not exact, and minus zero is no integer: read as such they would be other numbers. */
function encodeNumber(value: number): string {
  if (Object.is(value, -0)) return '-0.0';
  return Number.isInteger(value) && !Number.isSafeInteger(value)
    ? value.toExponential()
    : String(value);
}

/** Numbers from here on have more digits. */
const TOO_BIG = 10n ** BigInt(MAX_JSON_DIGITS);

/** Compared before it is written: writing a number of a million digits takes minutes. */
function encodeBigint(value: bigint, spot: Spot | null): string {
  if (value < TOO_BIG && value > -TOO_BIG) return value.toString();
  return refuse(spot, `a number has more than ${MAX_JSON_DIGITS} digits`);
}

function encodeObject(value: object, above: Spot | null, numbers: Numbers): string {
  const depth = above === null ? 1 : above.depth + 1;
  for (let spot = above; spot !== null; spot = spot.above)
    if (spot.value === value) return refuse(above, 'it contains itself');
  if (depth > MAX_DEPTH) return refuse(above, `it is nested deeper than ${MAX_DEPTH} levels`);
  if (value instanceof Uint8Array) return encodeBytes(value);
  const spot: Spot = { value, above, depth, key: '' };
  return Array.isArray(value)
    ? encodeArray(value, spot, numbers)
    : encodeRecord(value, spot, numbers);
}

function encodeArray(values: readonly unknown[], spot: Spot, numbers: Numbers): string {
  let text = '';
  for (let index = 0; index < values.length; index++) {
    spot.key = index;
    const item =
      encode(values[index], spot, numbers) ?? refuse(spot, 'undefined would become null');
    text += index === 0 ? item : `,${item}`;
  }
  return `[${text}]`;
}

function encodeRecord(value: object, spot: Spot, numbers: Numbers): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (
    prototype !== Object.prototype &&
    prototype !== null &&
    Object.getPrototypeOf(prototype) !== null
  ) {
    return refuse(
      spot.above,
      `a ${value.constructor?.name ?? 'class instance'} would not come back as one`,
    );
  }
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return refuse(spot.above, 'it has toJSON(), so something else would be sent');
  }
  let text = '';
  for (const key of Object.keys(value)) {
    spot.key = key;
    const item = encode((value as Readonly<Record<string, unknown>>)[key], spot, numbers);
    // As in JSON.stringify, an undefined member is left out.
    if (item !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${item}`;
  }
  return `{${text}}`;
}

/** Sixteen digits in a row: the text may hold an integer that a double cannot. */
const MAY_HOLD_BIG_INTEGER = /\d{16}/;
const INTEGER = /^-?\d+$/;

function readNumber(text: string): number | bigint {
  // Reading one takes quadratic time.
  if (text.length > MAX_JSON_DIGITS + 1 && INTEGER.test(text))
    return refuse(null, `a number has more than ${MAX_JSON_DIGITS} digits`);
  const value = Number(text);
  return INTEGER.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

const parseText = (text: string): unknown =>
  MAY_HOLD_BIG_INTEGER.test(text) ? parse(text, null, readNumber) : JSON.parse(text);

/** Python writes NaN and Infinity into JSON. They are numbers here too. */
function parseLoosely(text: string): { readonly value: unknown; readonly isMarked: boolean } {
  try {
    return { value: parseText(text), isMarked: mayHoldMarks(text) };
  } catch (error) {
    const marked = markNotFinite(text);
    if (marked === null) throw error;
    return { value: parseText(marked), isMarked: true };
  }
}

function decode(text: string, reading: Reading): unknown {
  const { value, isMarked } = parseLoosely(text);
  return isMarked ? readMarks(value, reading) : value;
}

/** Reads what `encodeJson` writes; an integer beyond 2^53 becomes a `bigint` instead of another integer. */
export const decodeJson = (text: string): unknown => decode(text, { marks: 'own' });

/** The same for what Python may have written: its times, decimals and UUIDs are texts. */
export const decodePython = (text: string): unknown => decode(text, { marks: 'python' });

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const toBytes = (text: string): Uint8Array => encoder.encode(text);
/** Throws on bytes that are not UTF-8: a replacement character would be a silent change. */
export const toText = (bytes: Uint8Array): string => decoder.decode(bytes);

/** Also with Python's NaN and Infinity. */
export function isJson(text: string): boolean {
  try {
    parseLoosely(text);
    return true;
  } catch {
    return false;
  }
}
