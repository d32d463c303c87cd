import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../test/sim/virtual-time.ts';
import { RunStop } from './run-stop.ts';
import { Seats, type Seated } from './seats.ts';

class Guest extends RunStop implements Seated {
  readonly name: string;

  constructor(name: string) {
    super(new AbortController().signal);
    this.name = name;
  }

  get stopping(): RunStop {
    return this;
  }
}

function setup(seats: number) {
  const time = new VirtualTime();
  const clock = {
    now: () => time.nowMs,
    monotonic: () => time.nowMs,
    timer: (ms: number, fn: () => void) => time.after(ms, fn),
  };
  const started: string[] = [];
  const places = new Seats<Guest>(seats, clock, ({ name, reason }) => {
    started.push(reason === null ? name : `${name}, ${reason}`);
  });
  return { time, started, places };
}

describe('the places of a worker', () => {
  it('are given in turn: no more handlers than places run at once', () => {
    const { started, places } = setup(2);
    for (const name of ['a', 'b', 'c', 'd']) places.enter(new Guest(name));
    expect(started).toEqual(['a', 'b']);
    places.leave();
    expect(started).toEqual(['a', 'b', 'c']);
    places.leave();
    places.leave();
    expect(started).toEqual(['a', 'b', 'c', 'd']);
  });

  it('are more to begin for while tasks are short, and what is not settled counts', () => {
    const { places } = setup(4);
    expect([places.free(0, 1), places.free(0, 4)]).toEqual([4, 16]);
    for (const name of ['a', 'b', 'c', 'd', 'e']) places.enter(new Guest(name));
    expect([places.free(5, 1), places.free(5, 4)]).toEqual([-1, 11]);
    expect([places.free(8, 1), places.free(29, 4)]).toEqual([-1, 3]);
  });

  it('are waited for a quarter of a second, each run by itself', async () => {
    const { time, started, places } = setup(1);
    places.enter(new Guest('long'));
    places.enter(new Guest('first'));
    await time.runUntil(200);
    places.enter(new Guest('second'));
    await time.runUntil(300);
    expect(started).toEqual(['long', 'first, release']);
    places.leave();
    places.leave();
    expect(started).toEqual(['long', 'first, release', 'second']);
    await time.runUntil(1_000);
    expect(started).toHaveLength(3);
  });

  it('keep nobody who is stopped: it is started at once, to see why', () => {
    const { started, places } = setup(1);
    const lost = new Guest('lost');
    places.enter(new Guest('long'));
    places.enter(lost);
    places.enter(new Guest('other'));
    lost.stop('lost');
    expect(started).toEqual(['long', 'lost, lost']);
    places.release();
    expect(started).toEqual(['long', 'lost, lost', 'other, release']);
  });
});
