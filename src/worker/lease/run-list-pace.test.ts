import { expect, it } from 'vitest';
import { RunListPace } from './run-list-pace.ts';

function setup() {
  let now = 1_000;
  const pace = new RunListPace({ monotonic: () => now });
  return {
    /** Whether a beat after so long lists, when its answer takes so long; null: there is none. */
    beat: (afterMs: number, tookMs: number | null): boolean => {
      now += afterMs;
      const { isDue } = pace;
      now += tookMs ?? 0;
      if (isDue) pace.listed(tookMs);
      return isDue;
    },
  };
}

it('lists with every beat while that is quick', () => {
  const { beat } = setup();
  expect([beat(0, 5), beat(1_000, 5), beat(1_000, 100), beat(1_000, 5)]).not.toContain(false);
});

it('lists for a tenth of the time at most', () => {
  const { beat } = setup();
  expect(beat(0, 400)).toBe(true);
  for (let second = 1; second < 4; second++) expect(beat(1_000, 0)).toBe(false);
  expect(beat(1_000, 400)).toBe(true);
});

it('lists again after half a minute, however long the last list took', () => {
  const { beat } = setup();
  expect(beat(0, 20_000)).toBe(true);
  expect(beat(29_999, 0)).toBe(false);
  expect(beat(1, 0)).toBe(true);
});

it('lists again with the next beat when there is no answer, and after half a minute when there is none again', () => {
  const { beat } = setup();
  expect([beat(0, null), beat(1_000, null)]).toEqual([true, true]);
  expect([beat(29_999, 0), beat(1, 5)]).toEqual([false, true]);
  expect([beat(1_000, null), beat(1_000, 5)]).toEqual([true, true]);
});
