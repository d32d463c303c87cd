import { describe, expect, it } from 'vitest';
import { noFaults } from '../runtime/runtime.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Ledger } from './ledger.ts';
import { Reaper } from './reaper.ts';

function setup() {
  let nowMs = 0;
  let jumpMs = 0;
  let slowMs = 0;
  let lateMs = 0;
  let isAway = false;
  let condemned = 0;
  const ledger: Pick<Ledger, 'condemn' | 'reap'> = {
    condemn: async () => {
      condemned += 1;
      return { workers: [], deaths: [], storeMs: nowMs };
    },
    reap: async () => {
      nowMs += slowMs;
      const storeMs = nowMs + jumpMs;
      nowMs += lateMs;
      if (isAway) throw new Error('away');
      return { returned: [], buried: [], more: false, storeMs };
    },
  };
  const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
  const random = { next: () => 0.5, token: () => 't' };
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit: noEvents };
  const reaper = new Reaper(ledger, runtime, { leaseMs: 5_000, beatMs: 1_000, chunk: 10 });
  return {
    reaper,
    condemned: () => condemned,
    pass: (ms: number) => void (nowMs += ms),
    slowDown: (ms: number) => void (slowMs = ms),
    answerLate: (ms: number) => void (lateMs = ms),
    trouble: {
      'that failed': (is: boolean) => void (isAway = is),
      'that was slow': (is: boolean) => void (slowMs = is ? 1_500 : 0),
      'in which the clock of the store had jumped': (is: boolean) =>
        void (jumpMs = is ? 60_000 : 0),
    },
  };
}

describe('a reaper that has just started', () => {
  it('declares no worker dead before one whole lease is over', async () => {
    const { reaper, condemned, pass } = setup();
    for (let look = 0; look < 10; look++) {
      await reaper.look();
      pass(499);
    }
    expect(condemned()).toBe(0);
    pass(20);
    await reaper.look();
    expect(condemned()).toBe(1);
  });
});

describe('a reaper after a look', () => {
  it.each(['that failed', 'that was slow', 'in which the clock of the store had jumped'] as const)(
    '%s declares no worker dead for one whole lease',
    async what => {
      const { reaper, condemned, pass, trouble } = setup();
      await reaper.look();
      pass(6_000);
      await reaper.look();
      expect(condemned()).toBe(1);
      trouble[what](true);
      await reaper.look().catch(() => undefined);
      if (what !== 'in which the clock of the store had jumped') trouble[what](false);
      for (let looks = 0; looks < 9; looks++) {
        pass(500);
        await reaper.look();
      }
      expect(condemned()).toBe(1);
      pass(600);
      await reaper.look();
      expect(condemned()).toBe(2);
    },
  );
});

describe('a reaper of a store that stays slow', () => {
  /** Looks for this long, and returns how often expired workers were condemned. */
  async function lookFor(ms: number, { reaper, condemned, pass }: ReturnType<typeof setup>) {
    const before = condemned();
    for (let passedMs = 0; passedMs < ms; passedMs += 500) {
      await reaper.look();
      pass(500);
    }
    return condemned() - before;
  }

  it('declares workers dead after three leases, and at every look from then on', async () => {
    const made = setup();
    await lookFor(10_000, made);
    made.slowDown(1_100);
    // Each look takes 1.6 s: the last one at 15 s after the first answer that was slow.
    expect(await lookFor(5_000, made)).toBe(0);
    expect(await lookFor(500, made)).toBe(1);
    expect(await lookFor(5_000, made)).toBe(10);
  });

  it('waits another grace period when the store becomes slower or was away', async () => {
    const made = setup();
    made.slowDown(1_100);
    await lookFor(15_000, made);
    expect(await lookFor(2_000, made)).toBe(4);
    made.slowDown(4_000);
    expect(await lookFor(500, made)).toBe(0);
    made.slowDown(1_100);
    expect(await lookFor(500, made)).toBe(0);
    await lookFor(5_000, made);
    expect(await lookFor(2_000, made)).toBe(4);
    made.trouble['that failed'](true);
    await made.reaper.look().catch(() => undefined);
    made.trouble['that failed'](false);
    expect(await lookFor(1_000, made)).toBe(0);
  });

  it('ends its grace period when the store is fast for one lease', async () => {
    const made = setup();
    made.slowDown(1_100);
    await lookFor(20_000, made);
    made.slowDown(0);
    expect(await lookFor(7_000, made)).toBe(14);
    made.slowDown(1_100);
    expect(await lookFor(2_000, made)).toBe(0);
  });

  it('does not take a late answer for a jump of the clock of the store', async () => {
    const made = setup();
    made.slowDown(1_500);
    await lookFor(20_000, made);
    for (const lateMs of [1_500, 0, 1_400, 0]) {
      made.answerLate(lateMs);
      made.slowDown(lateMs === 0 ? 1_500 : 0);
      expect(await lookFor(500, made)).toBe(1);
    }
  });
});
