import { describe, expect, it } from 'vitest';
import { uuidv7 } from './runtime.ts';

describe('ids of tasks', () => {
  it('are UUIDs of version 7 with their time in front', () => {
    expect(uuidv7(0x0192_3456_789a)).toMatch(
      /^01923456-789a-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
  });

  it('sort by time and never repeat', () => {
    const ids = Array.from({ length: 1_000 }, (_, ms) => uuidv7(1_700_000_000_000 + ms / 2));
    const times = ids.map(id => id.slice(0, 13));
    expect(times).toEqual(times.toSorted());
    expect(new Set(ids).size).toBe(1_000);
  });
});
