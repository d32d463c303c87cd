import { describe, expect, it } from 'vitest';
import { burnReport, type BurnStatus, type BurnWindow } from './burn-rate.ts';
import type { Bucket } from './tallies.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;
/** 30 s after 10:30: minutes and hours have begun. */
const NOW = Date.UTC(2026, 0, 10, 10, 30, 30);
const thisMinute = NOW - 30_000;
const thisHour = Date.UTC(2026, 0, 10, 10);

const bucket = (startMs: number, figure: Bucket['figure'], count: number): Bucket => ({
  startMs,
  figure,
  count,
});

function judge(buckets: readonly Bucket[], nowMs: number = NOW): readonly BurnStatus[] {
  const slo = { success: 0.999, latency: { withinMs: 5_000, target: 0.99 } };
  return burnReport({ nowMs, objectives: [{ name: 'shop.pay', slo, buckets }] }).objectives;
}

function ratesOf(buckets: readonly Bucket[], nowMs: number = NOW): readonly (number | null)[] {
  const [success] = judge(buckets, nowMs);
  return (['5m', '30m', '1h', '6h', '3d'] as const).map((window: BurnWindow) => {
    const rate = success?.windows[window].burnRate ?? null;
    return rate === null ? null : Number(rate.toFixed(6));
  });
}

describe('a burn rate', () => {
  it('is the share of bad ends over the budget, in each window', () => {
    // Counted by hand. 5 m: 1 of 1000 = 0.1 %, the budget. 30 m: 4 of 2000 = 0.2 %. 1 h: 4 of 4000 = 0.1 %.
    // 6 h: 16 of 10,000 = 0.16 %. 3 d: 16 of 160,000 = 0.01 %.
    const table = [
      bucket(thisMinute - 2 * MINUTE, 'done', 999),
      bucket(thisMinute - 2 * MINUTE, 'dead', 1),
      bucket(thisMinute - 20 * MINUTE, 'done', 997),
      bucket(thisMinute - 20 * MINUTE, 'expired', 3),
      bucket(thisMinute - 50 * MINUTE, 'done', 2_000),
      bucket(thisMinute - 5 * HOUR, 'done', 5_988),
      bucket(thisMinute - 5 * HOUR, 'dead', 12),
      bucket(thisHour - 40 * HOUR, 'done', 150_000),
    ];
    expect(ratesOf(table)).toEqual([1, 2, 1, 1.6, 0.1]);
  });

  it.each([
    ['5m', 4, MINUTE, thisMinute],
    ['30m', 29, MINUTE, thisMinute],
    ['1h', 59, MINUTE, thisMinute],
    ['6h', 359, MINUTE, thisMinute],
    ['3d', 71, HOUR, thisHour],
  ] as const)('over %s counts %i whole buckets and the running one', (window, most, unit, now) => {
    const inWindow = (startMs: number): number =>
      judge([bucket(startMs, 'dead', 1)])[0]?.windows[window].bad ?? -1;
    expect(inWindow(now)).toBe(1);
    expect(inWindow(now - most * unit)).toBe(1);
    expect(inWindow(now - (most + 1) * unit)).toBe(0);
  });

  it('is unknown without traffic, and burns nothing', () => {
    expect(ratesOf([])).toEqual([null, null, null, null, null]);
    expect(judge([]).map(({ status }) => status)).toEqual(['no-traffic', 'no-traffic']);
    const old = [bucket(thisHour - 8 * HOUR, 'dead', 9)];
    expect(ratesOf(old)).toEqual([null, null, null, null, 1_000]);
    expect(judge(old)[0]?.status).toBe('ok');
  });

  it('of a latency is about what is done, and how late', () => {
    // 30 of 1000 done ones were late: 3 % of a budget of 1 %. Dead ones are not late.
    const table = [
      bucket(thisMinute, 'done', 1_000),
      bucket(thisMinute, 'slow', 30),
      bucket(thisMinute, 'dead', 500),
    ];
    const latency = judge(table)[1];
    expect(latency).toMatchObject({ objective: 'latency', withinMs: 5_000, target: 0.99 });
    expect(latency?.windows['5m']).toMatchObject({ good: 970, bad: 30 });
    expect(latency?.windows['5m'].burnRate).toBeCloseTo(3, 9);
  });

  it('survives a clock that jumps', () => {
    const table = [bucket(thisMinute, 'done', 90), bucket(thisMinute, 'dead', 10)];
    // Set back by ten minutes: what was counted before is of now.
    expect(ratesOf(table, NOW - 10 * MINUTE)).toEqual([100, 100, 100, 100, 100]);
    // Set back by two hours: the clock had been wrong.
    expect(ratesOf(table, NOW - 2 * HOUR)).toEqual([null, null, null, null, null]);
    // Set forward by a day: it was long ago.
    expect(ratesOf(table, NOW + 24 * HOUR)).toEqual([null, null, null, null, 100]);
    expect(ratesOf(table, NOW + 96 * HOUR)).toEqual([null, null, null, null, null]);
  });
});

describe('an objective', () => {
  const statusOf = (buckets: readonly Bucket[]): string | undefined => judge(buckets)[0]?.status;
  /** So many of 10,000 ends were bad: 10 is the budget. */
  const burning = (startMs: number, bad: number): readonly Bucket[] => [
    bucket(startMs, 'done', 10_000 - bad),
    bucket(startMs, 'dead', bad),
  ];

  it('pages when an hour and its last five minutes burn at more than 14.4', () => {
    expect(statusOf(burning(thisMinute, 145))).toBe('page');
    // Calm for five minutes: the hour does not page any more, but six hours and thirty minutes do.
    expect(statusOf([...burning(thisMinute - 20 * MINUTE, 300), ...burning(thisMinute, 0)])).toBe(
      'page',
    );
    expect(
      statusOf([
        ...burning(thisMinute - 40 * MINUTE, 300),
        ...burning(thisMinute - 10 * MINUTE, 0),
        ...burning(thisMinute, 0),
      ]),
    ).toBe('ticket');
  });

  it('pages when six hours and their last thirty minutes burn at more than 6', () => {
    const calm = burning(thisMinute - 2 * HOUR, 0);
    expect(statusOf([...calm, ...burning(thisMinute - 20 * MINUTE, 121)])).toBe('page');
    expect(statusOf([...calm, ...burning(thisMinute - 20 * MINUTE, 119)])).toBe('ticket');
  });

  it('asks for a ticket when three days and their last six hours burn at more than 1', () => {
    const yesterday = burning(thisHour - 24 * HOUR, 10);
    expect(statusOf([...yesterday, ...burning(thisMinute - 2 * HOUR, 11)])).toBe('ticket');
    expect(statusOf([...yesterday, ...burning(thisMinute - 2 * HOUR, 9)])).toBe('ok');
    expect(statusOf(burning(thisHour - 24 * HOUR, 900))).toBe('ok');
  });

  it('can be tried with another target', () => {
    const counts = {
      nowMs: NOW,
      objectives: [
        { name: 'a', slo: { success: 0.999, latency: null }, buckets: burning(thisMinute, 100) },
      ],
    };
    expect(burnReport(counts).objectives[0]?.windows['5m'].burnRate).toBeCloseTo(10, 9);
    const tried = burnReport(counts, { target: 0.99 }).objectives[0];
    expect(tried).toMatchObject({ target: 0.99, status: 'ok' });
    expect(tried?.windows['5m'].burnRate).toBeCloseTo(1, 9);
  });
});
