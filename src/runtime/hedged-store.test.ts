import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../test/sim/virtual-time.ts';
import { HedgedStore, type SpareLink } from './hedged-store.ts';

interface Way {
  /** How long its answers take; Infinity: what is sent vanishes. */
  tookMs: number;
  sent: number;
  isClosed: boolean;
}

function setup({ hasSpare = true } = {}) {
  const time = new VirtualTime();
  const { clock } = time;
  const ways: Way[] = [{ tookMs: 5, sent: 0, isClosed: false }];
  const first = ways[0] as Way;
  let nextMs = 5;
  const openSpare = async (): Promise<SpareLink<Way>> => {
    const store = { tookMs: nextMs, sent: 0, isClosed: false };
    ways.push(store);
    return { store, close: async () => void (store.isClosed = true) };
  };
  const times = { beatMs: 1_000, leaseMs: 5_000 };
  const hedged = new HedgedStore(first, hasSpare ? openSpare : null, clock, times);
  const send = (way: Way): Promise<number> => {
    way.sent += 1;
    return new Promise(resolve => {
      if (way.tookMs < Infinity) time.after(way.tookMs, () => resolve(ways.indexOf(way)));
    });
  };
  /** Which connection has answered each of the calls, or what they failed with. */
  const call = async (count = 1): Promise<readonly (number | string)[]> => {
    const calls = Array.from({ length: count }, () =>
      hedged.call(send).catch((error: unknown) => (error as { readonly code: string }).code),
    );
    const all = Promise.all(calls);
    void all.then(() => time.stop());
    await time.runUntil(time.nowMs + 20_000);
    return await all;
  };
  return { time, hedged, ways, first, call, opensWith: (ms: number) => void (nextMs = ms) };
}

describe('a store that leases depend on', () => {
  it('is called by one way for as long as that answers, also when it is slow by habit', async () => {
    const { first, ways, call } = setup();
    for (const ms of [5, 200, 400, 700, 1_200]) {
      first.tookMs = ms;
      expect(await call()).toEqual([0]);
    }
    expect(ways).toHaveLength(1);
  });

  it('is called by a new way when that falls silent, within the same call, and stays there', async () => {
    const { time, first, ways, call } = setup();
    await call();
    first.tookMs = Infinity;
    const from = time.nowMs;
    expect(await call()).toEqual([1]);
    expect(time.nowMs - from).toBeLessThan(5_000 / 2);
    expect(await call()).toEqual([1]);
    expect([first.sent, ways[1]?.sent]).toEqual([2, 2]);
  });

  it('is given another way when the new one falls silent as well, and the old one is closed', async () => {
    const { first, ways, call } = setup();
    first.tookMs = Infinity;
    expect(await call()).toEqual([1]);
    (ways[1] as Way).tookMs = Infinity;
    expect(await call()).toEqual([2]);
    expect(ways.map(way => way.isClosed)).toEqual([false, true, false]);
  });

  it('is called by one new way by all who wait at the same time', async () => {
    const { first, ways, call } = setup();
    first.tookMs = Infinity;
    expect(await call(50)).toEqual(Array.from({ length: 50 }, () => 1));
    expect(ways).toHaveLength(2);
  });

  it('that answers by no way is away, after the time of a lease, and is tried anew', async () => {
    const { first, ways, call, opensWith } = setup();
    first.tookMs = Infinity;
    opensWith(Infinity);
    expect(await call()).toEqual(['ERR_STORE_UNAVAILABLE']);
    opensWith(5);
    expect(await call()).toEqual([2]);
    expect(ways[1]?.isClosed).toBe(true);
  });

  it('that has one way only is waited for', async () => {
    const { first, call } = setup({ hasSpare: false });
    first.tookMs = 15_000;
    expect(await call()).toEqual([0]);
  });

  it('is left by its second way when it is closed', async () => {
    const { first, ways, hedged, call } = setup();
    first.tookMs = Infinity;
    await call();
    await hedged.close();
    expect(ways[1]?.isClosed).toBe(true);
  });
});
