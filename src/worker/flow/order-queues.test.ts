import { expect, it } from 'vitest';
import { orderQueues } from './flow.ts';

/** How often each of two queues comes first, over every pair of draws of a grid. */
function shares(weights: readonly [number, number]): number {
  const steps = 200;
  let firsts = 0;
  for (let n = 0; n < steps * steps; n++) {
    const draws = [Math.floor(n / steps), n % steps].map(step => (step + 0.5) / steps);
    const [first] = orderQueues({ one: weights[0], other: weights[1] }, () => draws.shift() ?? 0);
    if (first === 'one') firsts += 1;
  }
  return firsts / (steps * steps);
}

it.each([
  [[1, 1], 0.5],
  [[3, 1], 0.75],
  [[1, 9], 0.1],
] as const)('puts a queue first in proportion to its weight: %j', (weights, share) => {
  expect(shares(weights)).toBeCloseTo(share, 1.7);
});

it('contains every queue once, whatever the random numbers are', () => {
  for (const draw of [0, 0.5, 1 - Number.EPSILON])
    expect(orderQueues({ a: 1, b: 2, c: 3 }, () => draw).toSorted()).toEqual(['a', 'b', 'c']);
});
