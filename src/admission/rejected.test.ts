import { expect, it } from 'vitest';
import { spread } from './permit.ts';

it('spreads the retries of rejected callers, none of them before capacity is free', () => {
  expect([0, 0.5, 1].map(random => spread(4_000, random))).toEqual([4_000, 4_500, 5_000]);
  expect(spread(1, 1)).toBe(101);
});
