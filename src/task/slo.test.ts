import { expect, it } from 'vitest';
import { task } from './define-task.ts';
import { sloOf } from './slo.ts';

it('an slo is read with its times in milliseconds, and a task without one promises nothing', () => {
  const given = { success: 0.999, latency: { within: '5s', target: 0.99 } } as const;
  expect(task('shop.pay', { slo: given }).contract.slo).toEqual({
    success: 0.999,
    latency: { withinMs: 5_000, target: 0.99 },
  });
  expect(task('shop.pay', {}).contract.slo).toBeNull();
  expect(sloOf('shop.pay', { success: 0.5 })).toEqual({ success: 0.5, latency: null });
});

it.each([
  ['nothing', {}, 'ERR_OPTION_RANGE', 'promises nothing'],
  ['no object', true, 'ERR_OPTION_RANGE', 'Write an object'],
  ['all', { success: 1 }, 'ERR_OPTION_RANGE', 'slo.success'],
  ['none', { success: 0 }, 'ERR_OPTION_RANGE', 'slo.success'],
  ['no number', { success: '0.9' }, 'ERR_OPTION_RANGE', 'slo.success'],
  ['no target', { latency: { within: '5s' } }, 'ERR_OPTION_RANGE', 'slo.latency.target'],
  ['no unit', { latency: { within: 5, target: 0.9 } }, 'ERR_OPTION_UNIT', 'slo.latency.within'],
  ['no time', { latency: { within: '0s', target: 0.9 } }, 'ERR_OPTION_RANGE', 'no time at all'],
  ['a misspelling', { succes: 0.9 }, 'ERR_UNKNOWN_OPTION', 'succes'],
  ['another', { latency: { in: '5s' } }, 'ERR_UNKNOWN_OPTION', 'slo.latency'],
])('an slo of %s is refused where it is written', (_what, given, code, says) => {
  const error = thrownBy(() => sloOf('shop.pay', given));
  expect(error.code).toBe(code);
  expect(`${error.message} ${error.hint}`).toContain(says);
});

interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

function thrownBy(fn: () => unknown): Refusal {
  try {
    fn();
  } catch (error) {
    return error as Refusal;
  }
  throw new Error('nothing was thrown');
}
