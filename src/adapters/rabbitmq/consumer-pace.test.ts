import { expect, it } from 'vitest';
import { ConsumerPace } from './consumer-pace.ts';

function setup() {
  let now = 0;
  const pace = new ConsumerPace(10, { monotonic: () => now });
  /** Seconds until the consumer would open a further window. */
  const waitsFor = (): number => {
    const from = now;
    while (pace.widerBy(0) === 0 && pace.widerBy(1_000) === 0) now += 1_000;
    return (now - from) / 1_000;
  };
  return { pace, waitsFor, later: (ms: number) => void (now += ms) };
}

it('opens a further window at once after a lost connection or a pause', () => {
  const { pace, waitsFor } = setup();
  expect(waitsFor()).toBe(0);
  pace.widen(28);
  pace.narrow();
  expect(waitsFor()).toBe(0);
});

it('opens a further window seconds after messages were requeued, and later each time that happens again', () => {
  const { pace, waitsFor, later } = setup();
  const waits: number[] = [];
  for (let times = 0; times < 9; times++) {
    pace.widen(28);
    pace.narrowLate();
    waits.push(waitsFor());
  }
  expect(waits).toEqual([2, 4, 8, 16, 32, 64, 120, 120, 120]);
  pace.widen(28);
  later(300_000);
  pace.narrowLate();
  expect(waitsFor()).toBe(2);
});
