import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { RunStop } from '../run/settlement.ts';
import { Slots, type SlotHolder } from './slots.ts';

class TestRun extends RunStop implements SlotHolder {
  readonly name: string;

  constructor(name: string) {
    super(new AbortController().signal);
    this.name = name;
  }

  get stopping(): RunStop {
    return this;
  }
}

function setup(count: number) {
  const time = new VirtualTime();
  const { clock } = time;
  const started: string[] = [];
  const slots = new Slots<TestRun>(count, clock, ({ name, reason }) => {
    started.push(reason === null ? name : `${name}, ${reason}`);
  });
  return { time, started, slots };
}

describe('the slots of a worker', () => {
  it('run at most that many handlers at once, in the order of arrival', () => {
    const { started, slots } = setup(2);
    for (const name of ['a', 'b', 'c', 'd']) slots.enter(new TestRun(name));
    expect(started).toEqual(['a', 'b']);
    expect(slots.used).toBe(4);
    slots.leave();
    expect(started).toEqual(['a', 'b', 'c']);
    slots.leave();
    slots.leave();
    expect(started).toEqual(['a', 'b', 'c', 'd']);
  });

  it('give back a run that has waited for a quarter of a second', async () => {
    const { time, started, slots } = setup(1);
    slots.enter(new TestRun('long'));
    slots.enter(new TestRun('first'));
    await time.runUntil(200);
    slots.enter(new TestRun('second'));
    await time.runUntil(300);
    expect(started).toEqual(['long', 'first, release']);
    slots.leave();
    slots.leave();
    expect(started).toEqual(['long', 'first, release', 'second']);
    await time.runUntil(1_000);
    expect(started).toHaveLength(3);
  });

  it('start a waiting run at once when it is stopped, so that it can end', () => {
    const { started, slots } = setup(1);
    const lost = new TestRun('lost');
    slots.enter(new TestRun('long'));
    slots.enter(lost);
    slots.enter(new TestRun('other'));
    lost.stop('lost');
    expect(started).toEqual(['long', 'lost, lost']);
    slots.release();
    expect(started).toEqual(['long', 'lost, lost', 'other, release']);
  });
});
