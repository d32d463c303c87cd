import { describe, expect, it } from 'vitest';
import { Lanes } from './lanes.ts';

describe('the batches of a worker', () => {
  it('get half of the places each, and no more than a store takes at once', () => {
    expect([1, 50, 400, 10_000].map(places => Lanes.share(places))).toEqual([1, 25, 200, 500]);
  });

  it('are two at a time: whoever wants a third waits for the first', async () => {
    const lanes = new Lanes<string>();
    let end: (answer: string) => void = () => undefined;
    const first = new Promise<string>(resolve => {
      end = resolve;
    });
    lanes.add(10, 1, first);
    expect(await lanes.room()).toBeUndefined();
    lanes.add(5, 0, Promise.resolve('second'));
    expect([lanes.places, lanes.suspects]).toEqual([15, 1]);
    const room = lanes.room();
    end('first');
    expect(await room).toBe('first');
    expect([lanes.places, lanes.suspects]).toEqual([0, 0]);
    expect(await lanes.last()).toBe('second');
  });
});
