import { expect, it } from 'vitest';
import { type Ended, MemoryKills, howItEnded } from './how-it-ended.ts';

const kind = (ended: Partial<Ended>): string =>
  howItEnded({
    code: null,
    signal: null,
    lastWords: '',
    isKilled: false,
    isMemoryShort: () => false,
    ...ended,
  }).kind;

it('names a cause only where something proves it', () => {
  const signal = 'SIGKILL';
  expect(kind({ code: 0 })).toBe('exited');
  expect(kind({ signal })).toBe('signal');
  expect(kind({ signal, isKilled: true })).toBe('shutdown-timeout');
  expect(kind({ signal, isMemoryShort: () => true })).toBe('out-of-memory');
  // Its thread killed it, whatever else happened on the machine.
  const lastWords = 'full\nstuck 1200\n';
  expect(kind({ signal, lastWords, isMemoryShort: () => true })).toBe('stuck-loop');
  expect(kind({ signal: 'SIGABRT' })).toBe('signal');
  expect(kind({ signal: 'SIGABRT', lastWords: 'full\n' })).toBe('out-of-memory');
  expect(kind({ signal: 'SIGTERM', isMemoryShort: () => true })).toBe('signal');
});

it('takes a kill of the system for recent only if the count has risen, and knows none where it cannot count', () => {
  let count: number | null = 4;
  const kills = new MemoryKills(() => count);
  expect(kills.isRecent()).toBe(false);
  count = 5;
  expect(kills.isRecent()).toBe(true);
  count = null;
  expect(kills.isRecent()).toBe(false);
  kills.close();
});
