import { describe, expect, it } from 'vitest';
import { LeaseWatch } from './heartbeat.ts';

/** A lease of 5 s, whose last beat was sent at 0. */
function setup() {
  const time = { monotonic: 0, wall: 1_700_000_000_000 };
  const clock = {
    now: () => time.wall,
    monotonic: () => time.monotonic,
    timer: () => () => undefined,
  };
  let beatAt = 0;
  const age = new LeaseWatch({ lastBeatAt: () => beatAt }, clock, 5_000);
  const pass = (ms: number): void => {
    time.monotonic += ms;
    time.wall += ms;
  };
  const beat = (): void => {
    beatAt = time.monotonic;
    age.noteBeat();
  };
  return { time, age, pass, beat };
}

describe('a lease', () => {
  it('is over one second before its end, until a beat is answered', () => {
    const { age, pass, beat } = setup();
    pass(3_999);
    expect(age.isOver).toBe(false);
    pass(1);
    expect(age.isOver).toBe(true);
    beat();
    expect(age.isOver).toBe(false);
  });

  it('is over after a sleep in which only the wall clock went on', () => {
    const { time, age, pass, beat } = setup();
    pass(1_000);
    time.wall += 60_000;
    expect(age.isOver).toBe(true);
    beat();
    expect(age.isOver).toBe(false);
  });

  it('does not last longer when the wall clock is set back', () => {
    const { time, age, pass } = setup();
    time.wall -= 3_600_000;
    pass(3_999);
    expect(age.isOver).toBe(false);
    pass(1);
    expect(age.isOver).toBe(true);
  });
});
