import { describe, expect, it } from 'vitest';
import { InFlightBatches } from './flow.ts';

describe('the in-flight batches of a worker', () => {
  it('are two at most; a third waits for the first', async () => {
    const batches = new InFlightBatches<string>();
    let end: (answer: string) => void = () => undefined;
    const first = new Promise<string>(resolve => {
      end = resolve;
    });
    batches.add(10, 1, first);
    expect(await batches.room()).toBeUndefined();
    batches.add(5, 0, Promise.resolve('second'));
    expect([batches.promised, batches.suspects]).toEqual([15, 1]);
    const room = batches.room();
    end('first');
    expect(await room).toBe('first');
    expect([batches.promised, batches.suspects]).toEqual([0, 0]);
    expect(await batches.last()).toBe('second');
  });
});
