import { describe, expect, it } from 'vitest';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { uncountedChord } from './uncounted-chord.ts';

const body = '{"task": "py.total", "args": [], "kwargs": {}, "options": {"task_id": "body"}';
const step = (options: string): string =>
  `{"task": "py.b", "args": [], "kwargs": {}, "options": ${options}}`;
const made = (embed: string, options = '{"groupId": "g"}'): Envelope => ({
  id: 'id',
  name: 'ts.a',
  queue: 'q',
  priority: 0,
  version: 1,
  body: toBytes(`[[], {}, ${embed}]`),
  options: toBytes(options),
  digest: '',
  etaMs: null,
  expiresMs: null,
});
const inChain = `{"chain": [${step(`{"group_id": "g", "chord": ${body}}}`)}, ${step('{}')}]}`;

describe('a chord whose size only Celery knows', () => {
  it.each([
    ['is not counted by a task of its header', made(`{"chord": ${body}}}`), true],
    ['nor by the first step of a chain in its header', made(inChain, '{}'), true],
    ['but one that has its size is', made(`{"chord": ${body}, "chord_size": 2}}`), false],
    ['and a task in no group, or in no chord, is free', made(`{"chord": ${body}}}`, '{}'), false],
    ['as is one with a chain of its own', made(`{"chain": [${step('{}')}]}`), false],
    ['and one that cannot be read, which others refuse', made('{"chord": 1}'), false],
  ])('%s', (_, envelope, isUncounted) => {
    expect(uncountedChord(envelope, {}) !== null).toBe(isUncounted);
    for (const ledger of [{ countsWithCelery: true }, { countsUnsized: true }])
      expect(uncountedChord(envelope, ledger)).toBeNull();
  });
});
