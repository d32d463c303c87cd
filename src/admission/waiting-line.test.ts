import { expect, it } from 'vitest';
import { WaitingLine } from './waiting-line.ts';

function setup() {
  let nowMs = 0;
  const line = new WaitingLine({ monotonic: () => nowMs });
  return { line, advance: (ms: number) => (nowMs += ms) };
}

it('a line appends each one an interval behind the last, of each key separately', () => {
  const { line, advance } = setup();
  expect([1, 2, 3].map(() => line.join('a', 500, 1_000))).toEqual([500, 1_500, 2_500]);
  expect(line.join('b', 500, 1_000)).toBe(500);
  advance(1_000);
  expect(line.join('a', 500, 1_000)).toBe(2_500);
  advance(60_000);
  expect(line.join('a', 500, 1_000)).toBe(500);
});

it('a row in a line waits for at most four minutes, and the last ones are spread', () => {
  const { line } = setup();
  const waits = Array.from({ length: 1_000 }, () => line.join('a', 1_000, 1_000));
  expect(Math.max(...waits)).toBe(240_000);
  const last = waits.slice(-120);
  expect(new Set(last).size).toBe(120);
  expect(Math.min(...last)).toBeGreaterThanOrEqual(120_000);
});

it('a line forgets keys whose last one has returned', () => {
  const { line, advance } = setup();
  for (let key = 0; key < 5_000; key++) {
    line.join(`key ${key}`, 10, 1);
    advance(1);
  }
  expect(line.join('key 0', 10, 1)).toBe(10);
});
