import { describe, expect, it } from 'vitest';
import { soon, soonAll } from './soon.ts';

describe('a value that may come later', () => {
  it('goes on at once where it is there, and later where it is not', async () => {
    expect(soon(1, value => value + 1)).toBe(2);
    const later = soon(Promise.resolve(1), value => value + 1);
    expect(later).toBeInstanceOf(Promise);
    expect(await later).toBe(2);
  });

  it('is one of many: in order, and at once only where all are there', async () => {
    expect(soonAll([1, 2], (value, index) => value * 10 + index)).toEqual([10, 21]);
    const mixed = soonAll([1, 2, 3], value => (value === 2 ? Promise.resolve(20) : value));
    expect(mixed).toBeInstanceOf(Promise);
    expect(await mixed).toEqual([1, 20, 3]);
  });

  it('that is refused beside promises leaves none of them unheard', async () => {
    const refuse = (value: number): number | Promise<number> => {
      if (value === 1) return Promise.reject(new Error('late'));
      throw new Error('at once');
    };
    // An unhandled rejection would fail the run.
    await expect(soonAll([1, 2], refuse)).rejects.toThrow(/late|at once/);
    expect(() => soonAll([2, 1], refuse)).toThrow('at once');
  });
});
