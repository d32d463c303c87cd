import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { watchLimits } from './watch-limits.ts';

function setup(limits: { readonly maxTasks: number; readonly maxMemoryMb: number }) {
  const time = new VirtualTime();
  const wear = { count: 0, megabytes: 0 };
  const reported: string[] = [];
  const undo = watchLimits(
    limits,
    { tasks: () => wear.count, rssBytes: () => wear.megabytes * 1_048_576 },
    time.clock,
    why => void reported.push(why),
  );
  return { time, wear, reported, undo };
}

describe('the limits of a process', () => {
  it('are reported once when they are reached, and not before', async () => {
    const { time, wear, reported } = setup({ maxTasks: 10, maxMemoryMb: 100 });
    Object.assign(wear, { count: 9, megabytes: 100 });
    await time.runUntil(5_000);
    expect(reported).toEqual([]);
    wear.count = 12;
    await time.runUntil(10_000);
    expect(reported).toEqual(['it has begun 12 tasks']);
  });

  it('include memory', async () => {
    const { time, wear, reported } = setup({ maxTasks: 0, maxMemoryMb: 100 });
    Object.assign(wear, { count: 1_000_000, megabytes: 101 });
    await time.runUntil(5_000);
    expect(reported).toEqual(['it has grown to 101 MiB']);
  });

  it('are off when they are 0, and not watched after the end', async () => {
    const none = setup({ maxTasks: 0, maxMemoryMb: 0 });
    Object.assign(none.wear, { count: 1_000, megabytes: 1_000 });
    await none.time.runUntil(5_000);
    expect(none.reported).toEqual([]);
    const over = setup({ maxTasks: 1, maxMemoryMb: 0 });
    over.undo();
    over.wear.count = 5;
    await over.time.runUntil(5_000);
    expect(over.reported).toEqual([]);
  });
});
