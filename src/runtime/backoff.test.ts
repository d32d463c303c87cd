import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs } from './backoff.ts';

const policy = { baseMs: 120_000, maxMs: 3_600_000 };

describe('the wait after a failure', () => {
  it('doubles from the base, plus up to a tenth of the base, as documented', () => {
    const waits = [0, 1, 2, 3].map(n => backoffMs({ ...policy, jitter: 'tenth' }, n, 0.5));
    expect(waits).toEqual([126_000, 246_000, 486_000, 966_000]);
    expect(backoffMs({ ...policy, jitter: 'tenth' }, 9, 0.5)).toBe(3_600_000);
  });

  it('is spread over its whole length with full jitter, also at the cap', () => {
    expect(backoffMs({ ...policy, jitter: 'full' }, 20, 0.25)).toBe(900_000);
    expect(backoffMs({ ...policy, jitter: 'full' }, 20, 0.75)).toBe(2_700_000);
  });

  it('is finite and within the cap after any number of failures', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        fc.constantFrom('none', 'tenth', 'full'),
        (retries, random, jitter) => {
          const wait = backoffMs({ ...policy, jitter }, retries, random);
          return wait >= 0 && wait <= policy.maxMs;
        },
      ),
    );
  });
});
