import { describe, expect, it } from 'vitest';
import { NotifyLimit } from './postgres-outbox-writer.ts';

function setup() {
  let nowMs = 1_000;
  const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
  const limit = new NotifyLimit(clock);
  const takeUpTo = (tries: number): number =>
    Array.from({ length: tries }, () => limit.take()).filter(Boolean).length;
  return { takeUpTo, pass: (ms: number) => (nowMs += ms) };
}

describe('the limit on notifications', () => {
  it('lets every send notify while sends are rare', () => {
    const { takeUpTo, pass } = setup();
    for (let second = 0; second < 10; second++) {
      expect(takeUpTo(5)).toBe(5);
      pass(100);
    }
  });

  it('allows a burst of ten notifications, then fifty a second', () => {
    const { takeUpTo, pass } = setup();
    expect(takeUpTo(1_000)).toBe(10);
    let taken = 0;
    for (let ms = 0; ms < 1_000; ms++) {
      pass(1);
      taken += takeUpTo(2);
    }
    expect(taken).toBeGreaterThanOrEqual(49);
    expect(taken).toBeLessThanOrEqual(50);
  });

  it('never accumulates more than one burst', () => {
    const { takeUpTo, pass } = setup();
    pass(3_600_000);
    expect(takeUpTo(1_000)).toBe(10);
  });
});
