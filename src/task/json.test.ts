import { describe, expect, it } from 'vitest';
import { decodeJson, decodePython, encodeJson, encodeResult, isJson } from './json.ts';
import { python } from './python-value.ts';

const marked = (type: string, value: unknown) => ({ __type__: type, __value__: value });

describe('numbers in JSON', () => {
  it.each([
    [2 ** 60, '1.152921504606847e+18'],
    [1e16, '1e+16'],
    [-(2 ** 53), '-9.007199254740992e+15'],
    [-0, '-0.0'],
    [1e21, '1e+21'],
    [2 ** 53 - 1, '9007199254740991'],
    [0.1, '0.1'],
    [2n ** 60n, '1152921504606846976'],
  ])('are written so that a float stays a float and an integer an integer: %s', (value, text) => {
    expect(encodeJson(value)).toBe(text);
    expect(decodeJson(text)).toBe(value);
  });

  it.each(['NaN', 'Infinity', '-Infinity'])(
    'are read, and written as results, when they are %s, as Python writes it',
    word => {
      const value = Number(word);
      expect(decodeJson(word)).toBe(value);
      expect(decodePython(`[[${word}, -1, "${word}"], {"a": ${word}}, null]`)).toEqual([
        [value, -1, word],
        { a: value },
        null,
      ]);
      expect(isJson(`[${word}]`)).toBe(true);
      expect(() => encodeJson([value])).toThrow(/is not JSON/);
      expect(encodeResult({ a: [value] })).toBe(`{"a":[${word}]}`);
    },
  );

  it.each(['[NaN', 'Nan', '[Infinit]', '-', '{"a": -}', '"NaN'])(
    'are no excuse for what is no JSON: %s',
    text => {
      expect(() => decodeJson(text)).toThrow(SyntaxError);
      expect(isJson(text)).toBe(false);
    },
  );
});

describe('values that kombu 5.3 and later mark', () => {
  it.each([
    ['datetime', '2026-03-01T10:00:00.000006+00:00', '2026-03-01T10:00:00.000006Z'],
    ['datetime', '2026-03-01T10:00:00+02:00', '2026-03-01T10:00:00+02:00'],
    ['datetime', '2026-03-01T10:00:00', '2026-03-01T10:00:00'],
    ['date', '2026-03-01', '2026-03-01'],
    ['time', '10:00:00', '10:00:00'],
    ['decimal', '1.10', '1.10'],
    ['uuid', { hex: '12345678123456781234567812345678' }, '12345678-1234-5678-1234-567812345678'],
    ['bytes', 'žlutý', new TextEncoder().encode('žlutý')],
    ['base64', '/wA=', Uint8Array.of(255, 0)],
  ])('are read as their texts, bytes as bytes: %s', (type, value, read) => {
    const text = JSON.stringify({ at: [marked(type, value)] });
    expect(decodePython(text)).toEqual({ at: [read] });
  });

  it.each([
    marked('money', '1 EUR'),
    marked('uuid', { hex: 'short' }),
    marked('base64', 'ž'),
    marked('datetime', 5),
    { ...marked('date', '2026-03-01'), more: 1 },
    { __type__: 'date' },
  ])('stay as they are if they are of no known kind: %j', value => {
    expect(decodePython(JSON.stringify(value))).toEqual(value);
  });

  it('do not reach the prototype of an object', () => {
    const read = decodePython(
      '{"__proto__": {"__type__": "date", "__value__": "2026-03-01"}}',
    ) as object;
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
    expect(Object.entries(read)).toEqual([['__proto__', '2026-03-01']]);
  });

  it('of our own programs come back as they were', () => {
    const bytes = new Uint8Array(20_000).map((_, index) => index);
    const own = { bytes, day: marked('date', '2026-03-01') };
    expect(decodeJson(encodeJson(own))).toEqual(own);
    expect(decodeJson(encodeJson(Buffer.from('a')))).toEqual(Uint8Array.of(97));
  });

  it('are made for Python', () => {
    const when = new Date(Date.UTC(2026, 2, 1, 10));
    expect(python.datetime(when)).toEqual(marked('datetime', '2026-03-01T10:00:00.000+00:00'));
    expect(python.date(when)).toEqual(marked('date', '2026-03-01'));
    expect(python.time('10:00')).toEqual(marked('time', '10:00'));
    expect(python.decimal('1.10')).toEqual(marked('decimal', '1.10'));
    const hex = '12345678123456781234567812345678';
    expect(python.uuid('12345678-1234-5678-1234-567812345678')).toEqual(marked('uuid', { hex }));
  });
});
