import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rate } from '../task/admission-rule.ts';
import { takeFrom } from './gcra.ts';

const rates = fc
  .record({ limit: fc.integer({ min: 1, max: 40 }), perMs: fc.integer({ min: 1, max: 5_000 }) })
  .chain(({ limit, perMs }) =>
    fc.integer({ min: 1, max: limit }).map((burst): Rate => ({ limit, perMs, burst })),
  );

/** The grants for calls at these times; times may go back, like those of calls that wait for a lock. */
function admit(rate: Rate, calls: readonly { atUs: number; count: number }[]): number[] {
  let stateUs = 0;
  return calls.flatMap(({ atUs, count }) => {
    const { granted, tatUs } = takeFrom(stateUs, atUs, rate, count);
    stateUs = tatUs;
    return Array.from({ length: granted }, () => atUs);
  });
}

describe('a rate', () => {
  it('holds in every window of its length, to the microsecond, in whatever order calls arrive', () => {
    const calls = fc.array(
      fc.record({
        atUs: fc.integer({ min: 1, max: 20_000_000 }),
        count: fc.integer({ min: 1, max: 50 }),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(rates, calls, fc.boolean(), (rate, given, isSorted) => {
        // A clock that is set back by more than a second resets the state: the last test has that case.
        const near = given.map(call => ({ ...call, atUs: 1_000_000_000 + (call.atUs % 900_000) }));
        const ordered = given.toSorted((a, b) => a.atUs - b.atUs);
        const admitted = admit(rate, isSorted ? ordered : near);
        const perUs = rate.perMs * 1_000;
        for (const from of admitted) {
          const within = admitted.filter(at => at >= from && at < from + perUs).length;
          expect(within).toBeLessThanOrEqual(rate.limit);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('admits its full number when no caller asks too early', () => {
    fc.assert(
      fc.property(rates, rate => {
        let [stateUs, nowUs] = [0, 1_000_000];
        for (let n = 0; n < 3 * rate.limit; n++) {
          const first = takeFrom(stateUs, nowUs, rate, 1);
          nowUs += first.waitUs;
          const { granted, tatUs } = takeFrom(stateUs, nowUs, rate, 1);
          expect(granted).toBe(1);
          stateUs = tatUs;
        }
      }),
    );
  });

  it('is available again one period after the clock was set back', () => {
    const rate = { limit: 10, perMs: 1_000, burst: 2 };
    const { tatUs } = takeFrom(0, 9_000_000_000, rate, 2);
    const cut = takeFrom(tatUs, 1_000_000_000, rate, 1);
    expect(cut.granted).toBe(0);
    expect(takeFrom(cut.tatUs, 1_001_000_000, rate, 2).granted).toBe(2);
  });
});
