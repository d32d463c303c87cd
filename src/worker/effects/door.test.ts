import { describe, expect, it } from 'vitest';
import { effectKeyOf } from './door.ts';

describe('the key of the steps of a run', () => {
  const run = { epoch: 1, run: 'r' };

  it('is the id of its task', () => {
    expect(effectKeyOf({ ...run, id: 'a task' })).toBe('a task');
  });

  it('is never the one of another task or of an idempotency key, whatever id a message has', () => {
    const ofKey = effectKeyOf({ ...run, id: 'some', effect: { key: 'k', origin: 'o', ttlMs: 1 } });
    const ids = [ofKey, `task ${ofKey}`, 'task some', 'some', 'key some', 'task key some'];
    const keys = [ofKey, ...ids.map(id => effectKeyOf({ ...run, id }))];
    expect(new Set(keys).size).toBe(keys.length);
  });
});
