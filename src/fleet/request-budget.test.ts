import { describe, expect, it } from 'vitest';
import type { Clock } from '../runtime/runtime.ts';
import { RequestBudget } from './request-budget.ts';

function setup(): { readonly budget: RequestBudget; readonly pass: (ms: number) => void } {
  let now = 0;
  const clock = { monotonic: () => now } as unknown as Clock;
  return { budget: new RequestBudget(clock), pass: ms => void (now += ms) };
}

const allowed = (budget: RequestBudget, bytes: number): number =>
  Array.from({ length: 10_000 }, () => budget.allows(bytes)).filter(Boolean).length;

describe('the budget of control requests', () => {
  it('allows a burst, then a fixed number a second', () => {
    const { budget, pass } = setup();
    expect(allowed(budget, 0)).toBe(200);
    pass(1_000);
    expect(allowed(budget, 0)).toBe(50);
    pass(3_600_000);
    expect(allowed(budget, 0)).toBe(200);
  });

  it('counts the bytes of a request', () => {
    const { budget } = setup();
    expect(allowed(budget, 1_048_576)).toBe(3);
  });
});
