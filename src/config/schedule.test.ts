import { describe, expect, it } from 'vitest';
import { task } from '../task/define-task.ts';
import { readSchedule, readSchedules } from './schedule.ts';

const call = task('test.tick').with();

describe('a schedule', () => {
  it('has defaults', () => {
    expect(readSchedule('a', { call, cron: '0 3 * * *' }, 'schedule.a')).toEqual({
      name: 'a',
      call,
      cron: '0 3 * * *',
      timeZone: 'UTC',
      jitterMs: 0,
      graceMs: 60_000,
      catchUp: 'one',
      maxCatchUp: 100,
      overlap: 'allow',
    });
  });

  it.each([
    [{ call, cron: '* * * * *', every: '1m' }, 'ERR_OPTIONS_CONFLICT'],
    [{ call }, 'ERR_OPTIONS_CONFLICT'],
    [{ call, every: '1m', timeZone: 'UTC' }, 'ERR_OPTIONS_CONFLICT'],
    [{ call, every: '1m', start: '2027-01-02', end: '2027-01-01' }, 'ERR_OPTIONS_CONFLICT'],
    [{ call, every: '500ms' }, 'ERR_OPTION_RANGE'],
    [{ call, every: '1m', start: 'soon' }, 'ERR_OPTION_RANGE'],
    [{ call, every: '1m', maxCatchUp: 1_001 }, 'ERR_OPTION_RANGE'],
    [{ call, cron: '*'.repeat(300) }, 'ERR_OPTION_RANGE'],
    [{ call, solar: 'sunset' }, 'ERR_OPTION_RANGE'],
    [{ call, evry: '1m' }, 'ERR_UNKNOWN_OPTION'],
  ])('%j is refused', (given, code) => {
    expect(() => readSchedule('a', given, 'schedule.a')).toThrow(expect.objectContaining({ code }));
  });

  it('has a safe name', () => {
    expect(() => readSchedules({ 'a b': { call, every: '1m' } })).toThrow(
      expect.objectContaining({ code: 'ERR_NAME_UNSAFE' }),
    );
  });
});
