import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endsAtAll } from '../../test/support/ends-at-all.ts';
import { ANY_TEXT, Wildcard, type WildcardPart, globPattern } from './glob.ts';

/** How many characters were compared for `*a*a…*b` against `aaa…`, the classic worst case. */
function stepsFor(stars: number, length: number): number {
  let steps = 0;
  const is = (wanted: string) => (char: string) => {
    steps += 1;
    return char === wanted;
  };
  const parts = Array.from({ length: stars }, (): WildcardPart[] => [ANY_TEXT, is('a')]).flat();
  const wildcard = new Wildcard([...parts, ANY_TEXT, is('b')]);
  expect(endsAtAll(() => wildcard.test('a'.repeat(length)))).toBe(false);
  return steps;
}

describe('a wildcard', () => {
  it('takes steps in proportion to the text, however many stars it has', () => {
    expect(stepsFor(30, 2_000)).toBeLessThan(2.2 * stepsFor(30, 1_000));
    expect(stepsFor(60, 1_000)).toBeLessThan(1.5 * stepsFor(30, 1_000));
    expect(stepsFor(60, 1_000)).toBeLessThan(61 * 1_000 * 2);
  });

  it('matches the same texts as the same regular expression', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 12 });
    const glob = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*', '?'), maxLength: 6 });
    fc.assert(
      fc.property(glob, text, (pattern, name) => {
        const source = pattern.replaceAll('.', '\\.').replaceAll('*', '.*').replaceAll('?', '.');
        expect(globPattern(pattern).test(name)).toBe(new RegExp(`^${source}$`, 's').test(name));
      }),
      { numRuns: 2_000 },
    );
  });

  it('matches a character outside the basic plane as one', () => {
    expect(globPattern('?').test('🐘')).toBe(true);
  });
});
