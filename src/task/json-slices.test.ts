import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { itemsOf, membersOf, objectOf } from './json-slices.ts';

describe('slices of JSON', () => {
  it('keep the text of every item unchanged', () => {
    expect(itemsOf(' [1.0, 12345678901234567890 ,"a,]\\"b", {"x" : [1, 2]},[ ] ]')).toEqual([
      '1.0',
      '12345678901234567890',
      '"a,]\\"b"',
      '{"x" : [1, 2]}',
      '[ ]',
    ]);
    expect([...membersOf('{"__proto__": {"a":1} , "b:\\"": "}", "n":null}')]).toEqual([
      ['__proto__', '{"a":1}'],
      ['b:"', '"}"'],
      ['n', 'null'],
    ]);
  });

  it('of an empty list or object are empty', () => {
    expect(itemsOf('[]')).toEqual([]);
    expect(itemsOf(' [ ] ')).toEqual([]);
    expect(membersOf('{ }').size).toBe(0);
  });

  it('are refused when the text is of another type', () => {
    expect(() => itemsOf('{}')).toThrow(TypeError);
    expect(() => membersOf('null')).toThrow(TypeError);
  });

  it('parse to the same values as JSON.parse of the whole text', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.nat(4), (values, space) => {
        const parsed = itemsOf(JSON.stringify(values, null, space)).map(
          text => JSON.parse(text) as unknown,
        );
        expect(parsed).toEqual(JSON.parse(JSON.stringify(values)));
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(4), (value, space) => {
        const text = JSON.stringify(value, null, space);
        const members = Object.fromEntries(membersOf(text));
        expect(JSON.parse(objectOf(members))).toEqual(JSON.parse(text));
      }),
    );
  });
});
