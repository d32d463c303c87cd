import { describe, expect, it } from 'vitest';
import { soon, soonAll } from './names.ts';

describe('a value or a promise', () => {
  it('is mapped at once when it is a value, and later when it is a promise', async () => {
    expect(soon(1, value => value + 1)).toBe(2);
    const later = soon(Promise.resolve(1), value => value + 1);
    expect(later).toBeInstanceOf(Promise);
    expect(await later).toBe(2);
  });

  it('is mapped in a list, in order, and at once only when no promise is in it', async () => {
    expect(soonAll([1, 2], (value, index) => value * 10 + index)).toEqual([10, 21]);
    const mixed = soonAll([1, 2, 3], value => (value === 2 ? Promise.resolve(20) : value));
    expect(mixed).toBeInstanceOf(Promise);
    expect(await mixed).toEqual([1, 20, 3]);
  });

  it('that throws leaves no rejected promise beside it unhandled', async () => {
    const refuse = (value: number): number | Promise<number> => {
      if (value === 1) return Promise.reject(new Error('late'));
      throw new Error('at once');
    };
    // An unhandled rejection would fail the run.
    await expect(soonAll([1, 2], refuse)).rejects.toThrow(/late|at once/);
    expect(() => soonAll([2, 1], refuse)).toThrow('at once');
  });
});
