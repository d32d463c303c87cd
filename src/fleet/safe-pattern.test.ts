import { describe, expect, it } from 'vitest';
import { endsAtAll } from '../../test/support/ends-at-all.ts';
import { SafePattern } from './safe-pattern.ts';

describe('a safe pattern', () => {
  // A backtracking regular expression takes twice as long for every further character.
  it.each(['(a*)*$', '(a|a)*$', '(.*)*(.*)*(.*)*x$', '(a+)+b'])(
    'ends in linear time, however ambiguous it is: %s',
    pattern => {
      const text = `${'a'.repeat(5_000)}!`;
      expect(endsAtAll(() => new SafePattern(pattern).test(text))).toBe(false);
    },
  );
});
