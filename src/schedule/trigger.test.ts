import { describe, expect, it } from 'vitest';
import { decide } from './decide.ts';
import { triggerOf } from './trigger.ts';

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

function slots(cron: string, timeZone: string, from: string, count: number): readonly string[] {
  const trigger = triggerOf('test', { cron, timeZone });
  const found: string[] = [];
  let atMs = Date.parse(from);
  for (let nth = 0; nth < count; nth++) {
    atMs = trigger.next(atMs) ?? Infinity;
    found.push(new Date(atMs).toISOString().slice(0, 16));
  }
  return found;
}

describe('a fixed time of day', () => {
  it.each([
    // 02:30 does not exist on 29 March: the first moment after the gap is 03:00 summer time.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T00:30']],
    [
      '30 2 * * *',
      'America/New_York',
      '2026-03-08T00:00Z',
      ['2026-03-08T07:00', '2026-03-09T06:30'],
    ],
    // Here the gap is half an hour: 02:15 becomes 02:30.
    [
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03T00:00Z',
      ['2026-10-03T15:30', '2026-10-04T15:15'],
    ],
  ])('%s in %s fires once right after a gap', (cron, zone, from, expected) => {
    expect(slots(cron, zone, from, 2)).toEqual(expected);
  });

  it.each([
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', ['2026-10-25T00:30', '2026-10-26T01:30']],
    [
      '30 1 * * *',
      'America/New_York',
      '2026-10-31T12:00Z',
      ['2026-11-01T05:30', '2026-11-02T06:30'],
    ],
    [
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T00:00Z',
      ['2026-04-04T14:45', '2026-04-05T15:15'],
    ],
  ])('%s in %s that comes twice fires the first time only', (cron, zone, from, expected) => {
    expect(slots(cron, zone, from, 2)).toEqual(expected);
  });
});

describe('a repeated time', () => {
  it.each([
    ['*/30 * * * *', 'Europe/Berlin', '2026-10-24T23:50Z', 30],
    ['*/30 * * * *', 'America/New_York', '2026-11-01T04:50Z', 30],
    ['*/10 * * * *', 'Australia/Lord_Howe', '2026-04-04T14:30Z', 10],
    ['*/10 * * * *', 'Australia/Lord_Howe', '2026-10-03T15:00Z', 10],
    ['*/15 * * * *', 'Europe/Berlin', '2026-03-29T00:40Z', 15],
  ])('%s in %s goes on evenly through a change of the clock', (cron, zone, from, minutes) => {
    const found = slots(cron, zone, from, 8).map(text => Date.parse(`${text}Z`));
    const steps = found.slice(1).map((ms, index) => ms - (found[index] ?? 0));
    expect(new Set(steps)).toEqual(new Set([minutes * 60_000]));
  });

  it('within an hour that is left out has no slots that day', () => {
    expect(slots('*/30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 1)).toEqual([
      '2026-03-30T00:00',
    ]);
  });

  it('within an hour that comes twice fires in both', () => {
    const expected = [
      '2026-10-25T00:00',
      '2026-10-25T00:30',
      '2026-10-25T01:00',
      '2026-10-25T01:30',
      '2026-10-26T01:00',
    ];
    expect(slots('*/30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 5)).toEqual(expected);
  });
});

describe('slots', () => {
  it.each([
    ['*/7 * * * * *', 1_000],
    ['30 2 * * *', 40 * 86_400_000],
    ['*/10 2 * * *', 5 * 86_400_000],
  ])('%s are the same forward and backward, across changes of the clock', (cron, spanMs) => {
    for (const timeZone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe'])
      for (const end of [
        '2026-03-29T04:00:00.5Z',
        '2026-10-25T04:00:00Z',
        '2026-11-01T08:00:00Z',
        '2026-10-03T16:00:00Z',
      ]) {
        const untilMs = Date.parse(end);
        const sinceMs = untilMs - spanMs;
        const trigger = triggerOf('test', { cron, timeZone });
        const forward: number[] = [];
        for (
          let at = trigger.next(sinceMs - 1);
          at !== null && at <= untilMs;
          at = trigger.next(at)
        )
          forward.push(at);
        expect(trigger.newest(10_000, sinceMs, untilMs)).toEqual(forward);
        expect(trigger.newest(13, sinceMs, untilMs)).toEqual(forward.slice(-13));
      }
  });

  it('of an interval are counted from start, else from 1970', () => {
    expect(iso(triggerOf('a', { everyMs: 3_600_000 }).next(Date.parse('2026-01-01T10:20Z')))).toBe(
      '2026-01-01T11:00:00.000Z',
    );
    const startMs = Date.parse('2026-01-01T00:07Z');
    const trigger = triggerOf('a', {
      everyMs: 3_600_000,
      startMs,
      endMs: Date.parse('2026-01-01T02:10Z'),
    });
    expect(iso(trigger.next(0))).toBe('2026-01-01T00:07:00.000Z');
    expect(trigger.newest(9, 0, Infinity).map(iso)).toEqual([
      '2026-01-01T00:07:00.000Z',
      '2026-01-01T01:07:00.000Z',
      '2026-01-01T02:07:00.000Z',
    ]);
    expect(trigger.next(Date.parse('2026-01-01T02:07Z'))).toBeNull();
  });

  it.each([
    ['61 * * * *', 'UTC'],
    ['* *', 'UTC'],
    ['0 3 * * *', 'Mars/Olympus'],
  ])('%s in %s is refused', (cron, timeZone) => {
    expect(() => triggerOf('odd', { cron, timeZone })).toThrow(
      expect.objectContaining({ code: 'ERR_SCHEDULE_INVALID' }),
    );
  });
});

describe('late slots', () => {
  const minute = 60_000;
  const trigger = triggerOf('test', { everyMs: minute });
  const policy = { graceMs: minute, maxCatchUp: 3 };
  const from = 10 * minute;

  it.each([
    ['skip', 20 * minute + 30_000, [20], 10],
    ['one', 20 * minute + 30_000, [20], 10],
    ['all', 20 * minute + 30_000, [17, 18, 19, 20], 7],
  ] as const)(
    '%s fires the slot that is on time, and decides about the others',
    (catchUp, nowMs, fired, missed) => {
      const decision = decide(trigger, { ...policy, catchUp }, from, nowMs);
      expect(decision).toEqual({
        slots: fired.map(nth => nth * minute),
        missed,
        nextSlotMs: 21 * minute,
      });
    },
  );

  it.each([
    ['skip', [], 3],
    ['one', [12], 2],
    ['all', [10, 11, 12], 0],
  ] as const)('%s decides when every slot is late', (catchUp, fired, missed) => {
    const hourly = triggerOf('test', { everyMs: minute, endMs: 12 * minute });
    const decision = decide(hourly, { ...policy, catchUp }, from, 30 * minute);
    expect(decision).toEqual({ slots: fired.map(nth => nth * minute), missed, nextSlotMs: null });
  });

  it('do not come again when the clock was set back after they were read as due', () => {
    const decision = decide(trigger, { ...policy, catchUp: 'all' }, from, from - 5 * minute);
    expect(decision).toEqual({ slots: [], missed: 0, nextSlotMs: from });
  });

  it('are bounded after a year of silence, and quick to count', () => {
    const seconds = triggerOf('test', { cron: '* * * * * *' });
    const nowMs = Date.parse('2026-06-01T00:00:00Z');
    const decision = decide(
      seconds,
      { catchUp: 'all', graceMs: 1_000, maxCatchUp: 1_000 },
      nowMs - 365 * 86_400_000,
      nowMs,
    );
    expect(decision.slots).toHaveLength(1_000);
    expect(decision.nextSlotMs).toBeLessThanOrEqual(nowMs + 1_000);
  });
});
