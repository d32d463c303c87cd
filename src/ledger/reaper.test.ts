import { describe, expect, it } from 'vitest';
import { noFaults } from '../runtime/fault-point.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Ledger } from './ledger.ts';
import { Reaper } from './reaper.ts';

function setup() {
  let nowMs = 0;
  let jumpMs = 0;
  let slowMs = 0;
  let isAway = false;
  let condemned = 0;
  const ledger: Pick<Ledger, 'condemn' | 'reap'> = {
    condemn: async () => {
      condemned += 1;
      return { workers: [], storeMs: nowMs };
    },
    reap: async () => {
      nowMs += slowMs;
      if (isAway) throw new Error('away');
      return { returned: [], buried: [], more: false, storeMs: nowMs + jumpMs };
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
    trouble: {
      'that failed': (is: boolean) => void (isAway = is),
      'that was slow': (is: boolean) => void (slowMs = is ? 1_500 : 0),
      'in which the clock of the store had jumped': (is: boolean) =>
        void (jumpMs = is ? 60_000 : 0),
    },
  };
}

describe('a reaper that has just started', () => {
  it('declares nobody dead before one whole lease is over', async () => {
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
    '%s declares nobody dead for one whole lease',
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
