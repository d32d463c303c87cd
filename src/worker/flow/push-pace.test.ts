import { expect, it } from 'vitest';
import { PushPace } from './queue-windows.ts';

function setup() {
  let now = 0;
  const pace = new PushPace(10, { monotonic: () => now });
  /** Seconds until so many acknowledgements at once are worth a window ahead. */
  const waitsFor = (): number => {
    const from = now;
    for (pace.acknowledged(1_000); pace.width === 0; pace.acknowledged(1_000)) now += 1_000;
    return (now - from) / 1_000;
  };
  return { pace, waitsFor, later: (ms: number) => void (now += ms) };
}

it('is wider the more tasks a slot runs in a second', () => {
  const { pace, later } = setup();
  const widths = [0, 19, 20, 399, 400].map(inHalfASecond => {
    later(501);
    pace.acknowledged(inHalfASecond);
    return pace.width;
  });
  expect(widths).toEqual([0, 0, 3, 3, 28]);
  later(501);
  expect(pace.width).toBe(0);
});

it('is 0 for seconds after messages were requeued, and longer each time that happens again', () => {
  const { pace, waitsFor, later } = setup();
  const rests: number[] = [];
  expect(waitsFor()).toBe(0);
  for (let times = 0; times < 9; times++) {
    pace.opened();
    pace.rest(28);
    rests.push(waitsFor());
  }
  expect(rests).toEqual([2, 4, 8, 16, 32, 64, 120, 120, 120]);
  later(300_000);
  pace.opened();
  pace.rest(28);
  expect(waitsFor()).toBe(2);
});

it('is 0 for two seconds only, however often messages were requeued, if the windows were emptied many times before', () => {
  const { pace, waitsFor } = setup();
  const rests: number[] = [];
  for (let times = 0; times < 9; times++) {
    pace.opened();
    // Ten slots, and ten times what they hold.
    pace.acknowledged(28 * 10 * 10);
    pace.rest(28);
    rests.push(waitsFor());
  }
  expect(rests).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 2]);
});
