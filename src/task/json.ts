import { parse } from 'lossless-json';
import { outlastError } from '../errors/error.ts';

/**
 * T itself where JSON carries it unchanged, `never` where it would not: a `Date` would come back as
 * text, a `Map` as `{}`, a function not at all. A `bigint` is a JSON integer.
 */
export type Jsonable<T> = T extends string | number | boolean | null | undefined | bigint
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

/** Deeper than anybody's data, and far from where a recursive reader of another language gives up. */
const MAX_DEPTH = 100;

function refuse(path: string, why: string): never {
  const place = path === '' ? 'the value' : `\`${path}\``;
  throw outlastError('ERR_INPUT_NOT_JSON', {
    message: `${place} is not JSON: ${why}`,
    hint: 'Send plain objects, arrays, strings, finite numbers, bigint, booleans and null; convert the rest yourself, for example a Date with toISOString().',
    fields: { path },
  });
}

/** The JSON text of a value that JSON carries unchanged; throws `ERR_INPUT_NOT_JSON` for any other. */
export function encodeJson(value: unknown): string {
  const text = encode(value, '', new Set());
  return text ?? refuse('', 'it is undefined');
}

function encode(value: unknown, path: string, above: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
      // Escapes NUL and lone surrogates, so both survive any store and any UTF-8 encoder.
      return JSON.stringify(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'bigint':
      return value.toString();
    case 'number':
      if (!Number.isFinite(value)) return refuse(path, `${value} would become null`);
      return Object.is(value, -0) ? '0' : String(value);
    case 'undefined':
      return undefined;
    case 'object':
      return value === null ? 'null' : encodeObject(value, path, above);
    default:
      return refuse(path, `a ${typeof value} cannot be sent`);
  }
}

function encodeObject(value: object, path: string, above: Set<object>): string {
  if (above.has(value)) return refuse(path, 'it contains itself');
  if (above.size >= MAX_DEPTH) return refuse(path, `it is nested deeper than ${MAX_DEPTH} levels`);
  above.add(value);
  const text = Array.isArray(value)
    ? encodeArray(value, path, above)
    : encodeRecord(value, path, above);
  above.delete(value);
  return text;
}

function encodeArray(values: readonly unknown[], path: string, above: Set<object>): string {
  const items: string[] = [];
  for (let index = 0; index < values.length; index++) {
    const place = `${path}[${index}]`;
    items.push(encode(values[index], place, above) ?? refuse(place, 'undefined would become null'));
  }
  return `[${items.join(',')}]`;
}

function encodeRecord(value: object, path: string, above: Set<object>): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (
    prototype !== Object.prototype &&
    prototype !== null &&
    Object.getPrototypeOf(prototype) !== null
  ) {
    return refuse(
      path,
      `a ${value.constructor?.name ?? 'class instance'} would not come back as one`,
    );
  }
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return refuse(path, 'it has toJSON(), so something else would be sent');
  }
  const items: string[] = [];
  for (const [key, item] of Object.entries(value)) {
    const text = encode(item, path === '' ? key : `${path}.${key}`, above);
    // As in JSON.stringify a member that is undefined is a member that is not there.
    if (text !== undefined) items.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${items.join(',')}}`;
}

/** Sixteen digits in a row: the text may hold an integer that a double cannot. */
const MAY_HOLD_BIG_INTEGER = /\d{16}/;
const INTEGER = /^-?\d+$/;

function readNumber(text: string): number | bigint {
  const value = Number(text);
  return INTEGER.test(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

/** Reads JSON; an integer beyond 2^53 becomes a `bigint` instead of another integer. */
export function decodeJson(text: string): unknown {
  return MAY_HOLD_BIG_INTEGER.test(text) ? parse(text, null, readNumber) : JSON.parse(text);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const toBytes = (text: string): Uint8Array => encoder.encode(text);
/** Throws on bytes that are not UTF-8: a replacement character would be a silent change. */
export const toText = (bytes: Uint8Array): string => decoder.decode(bytes);
