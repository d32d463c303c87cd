/**
 * What Python writes into JSON beyond JSON itself: kombu 5.3 and later mark values that are not of JSON's types, as
 * `{"__type__": "datetime", "__value__": "…"}`, and every Python writes NaN and Infinity bare. Earlier versions of kombu write
 * the same values as texts, so they are read as those texts: a schema holds for both.
 */

type Fields = Record<string, unknown>;

/** A value that kombu marks, as a TypeScript program sees it. Undefined: it is left as it is. */
type Reader = (value: unknown) => unknown;

const text: Reader = value => (typeof value === 'string' ? value : undefined);

/** What we write ourselves: it comes back as it was. */
const OWN: ReadonlyMap<unknown, Reader> = new Map<unknown, Reader>([
  ['bytes', value => (typeof value === 'string' ? new TextEncoder().encode(value) : undefined)],
  ['base64', value => (typeof value === 'string' ? fromBase64(value) : undefined)],
  ['float', value => (typeof value === 'string' ? NOT_FINITE.get(value) : undefined)],
]);

const PYTHON: ReadonlyMap<unknown, Reader> = new Map<unknown, Reader>([
  ...OWN,
  // As kombu 5.2 writes it, and as most schemas want it.
  ['datetime', value => (typeof value === 'string' ? value.replace(/\+00:00$/, 'Z') : undefined)],
  ['date', text],
  ['time', text],
  ['decimal', text],
  ['uuid', value => uuidOf(typeof value === 'string' ? value : (value as Fields | null)?.['hex'])],
]);

export interface Reading {
  /** `own`: only what our own encoder writes. `python`: everything that kombu marks. */
  readonly marks: 'own' | 'python';
}

const MARK = '"__type__"';

/** Whether a text may hold marked values: most do not, and need no second look. */
export const mayHoldMarks = (json: string): boolean => json.includes(MARK);

/** The value with marked values replaced, in place. */
export function readMarks(value: unknown, reading: Reading): unknown {
  return replaceIn(value, reading.marks === 'own' ? OWN : PYTHON);
}

function replaceIn(value: unknown, readers: ReadonlyMap<unknown, Reader>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const fields = value as Fields;
  // The inner ones first, as kombu does.
  for (const key of Object.keys(fields)) {
    const found = replaceIn(fields[key], readers);
    // Not by assignment: a key may be `__proto__`.
    if (found !== fields[key])
      Object.defineProperty(fields, key, {
        value: found,
        writable: true,
        enumerable: true,
        configurable: true,
      });
  }
  return markedValue(fields, readers) ?? value;
}

function markedValue(fields: Fields, readers: ReadonlyMap<unknown, Reader>): unknown {
  if (Array.isArray(fields) || Object.keys(fields).length !== 2) return undefined;
  if (!Object.hasOwn(fields, '__type__') || !Object.hasOwn(fields, '__value__')) return undefined;
  return readers.get(fields['__type__'])?.(fields['__value__']);
}

const HEX = /^[0-9a-f]{32}$/i;

function uuidOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const hex = value.replaceAll('-', '');
  if (!HEX.test(hex)) return undefined;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5').toLowerCase();
}

const NOT_FINITE: ReadonlyMap<unknown, number> = new Map([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
]);

/** The same text with Python's NaN and Infinity marked, so that it is JSON; null: it has none. */
export function markNotFinite(json: string): string | null {
  let marked = '';
  let from = 0;
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === '"') at = endOfString(json, at);
    else if (char === 'N' || char === 'I' || char === '-') {
      const word = WORDS.find(one => json.startsWith(one, at));
      if (word === undefined) continue;
      marked += `${json.slice(from, at)}{${MARK}:"float","__value__":"${word}"}`;
      from = at + word.length;
      at = from - 1;
    }
  }
  return from === 0 ? null : marked + json.slice(from);
}

const WORDS = ['NaN', 'Infinity', '-Infinity'];

/** The index of the closing quote of the string that begins here. */
function endOfString(json: string, opening: number): number {
  let at = opening + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at;
}

/** Bytes, marked as kombu marks them. */
export const encodeBytes = (bytes: Uint8Array): string =>
  `{${MARK}:"base64","__value__":"${toBase64(bytes)}"}`;

/** As many as may be arguments of one call. */
const CHUNK = 8_192;

function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

function fromBase64(value: string): Uint8Array | undefined {
  try {
    const binary = atob(value);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
    return bytes;
  } catch {
    return undefined;
  }
}
