import { describe, expect, it } from 'vitest';
import { globPattern, likePattern } from './glob.ts';

describe('a glob', () => {
  it.each([
    ['shop.*', 'shop.order', true],
    ['shop.*', 'shopxorder', false],
    ['*', '', true],
    ['shop.?rder', 'shop.order', true],
    ['shop.?', 'shop.', false],
    ['a+b', 'a+b', true],
    ['a+b', 'aab', false],
    ['[ab]', 'a', false],
    ['100%_\\', '100%_\\', true],
    ['order', 'shop.order', false],
  ])('%s against %s: %s', (glob, name, isMatch) => {
    expect(globPattern(glob).test(name)).toBe(isMatch);
  });

  it('is translated to a LIKE pattern with the special characters of SQL escaped', () => {
    expect(likePattern('100%_\\*?')).toBe('100\\%\\_\\\\%_');
    expect(likePattern(null)).toBeNull();
  });
});
