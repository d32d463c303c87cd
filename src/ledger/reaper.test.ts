import { describe, expect, it } from 'vitest';
import { noFaults } from '../runtime/fault-point.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Ledger } from './ledger.ts';
import { Reaper } from './reaper.ts';

function setup() {
  let nowMs = 0;
  let condemned = 0;
  const ledger: Pick<Ledger, 'condemn' | 'reap'> = {
    condemn: async () => {
      condemned += 1;
      return { workers: [], storeMs: nowMs };
    },
    reap: async () => ({ returned: [], buried: [], more: false, storeMs: nowMs }),
  };
  const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
  const random = { next: () => 0.5, token: () => 't' };
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit: noEvents };
  const reaper = new Reaper(ledger, runtime, { leaseMs: 5_000, beatMs: 1_000, chunk: 10 });
  return { reaper, condemned: () => condemned, pass: (ms: number) => void (nowMs += ms) };
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
