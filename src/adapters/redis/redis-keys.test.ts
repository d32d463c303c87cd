import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endsAtAll } from '../../../test/support/ends-at-all.ts';
import { boundQueues } from './redis-keys.ts';

const SEPARATOR = '\x06\x16';
const isBound = (key: string, routingKey: string): boolean =>
  boundQueues([[key, 'x', 'queue'].join(SEPARATOR), 'other'], routingKey).length === 1;

describe('a binding of kombu', () => {
  it('matches the same routing keys as the regular expression of kombu', () => {
    const word = fc.constantFrom('a', 'b', '*', '#');
    const key = fc.array(word, { minLength: 1, maxLength: 4 }).map(words => words.join('.'));
    const routingKey = fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 8 });
    const regexOf = (given: string): RegExp => {
      const words = given.split('.').map(part => ({ '*': '.*?[^.]', '#': '.*?' })[part] ?? part);
      return new RegExp(`^${words.join('\\.')}$`);
    };
    fc.assert(
      fc.property(key, routingKey, (given, asked) => {
        expect(isBound(given, asked)).toBe(regexOf(given).test(asked));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is matched quickly also when it has many wildcards', () => {
    // As a regular expression this match would practically never end.
    const key = Array.from({ length: 60 }, () => '#').join('.');
    expect(endsAtAll(() => isBound(key, '.'.repeat(2_000)))).toBe(true);
    expect(endsAtAll(() => isBound(`${key}.b`, `${'a.'.repeat(1_000)}a`))).toBe(false);
  });
});
