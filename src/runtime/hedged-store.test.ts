import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { HedgedStore, type SpareLink } from './hedged-store.ts';

interface Connection {
  /** How long its answers take; Infinity: it never answers. */
  tookMs: number;
  sent: number;
  isClosed: boolean;
}

function setup({ hasSpare = true } = {}) {
  const time = new VirtualTime();
  const { clock } = time;
  const connections: Connection[] = [{ tookMs: 5, sent: 0, isClosed: false }];
  const first = connections[0] as Connection;
  let nextMs = 5;
  const openSpare = async (): Promise<SpareLink<Connection>> => {
    const store = { tookMs: nextMs, sent: 0, isClosed: false };
    connections.push(store);
    return { store, close: async () => void (store.isClosed = true) };
  };
  const times = { beatMs: 1_000, leaseMs: 5_000 };
  const hedged = new HedgedStore(first, hasSpare ? openSpare : null, clock, times);
  const send = (connection: Connection): Promise<number> => {
    connection.sent += 1;
    return new Promise(resolve => {
      if (connection.tookMs < Infinity)
        time.after(connection.tookMs, () => resolve(connections.indexOf(connection)));
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
  return { time, hedged, connections, first, call, opensWith: (ms: number) => void (nextMs = ms) };
}

describe('a store that leases depend on', () => {
  it('is called through one connection while that answers, also when it is always slow', async () => {
    const { first, connections, call } = setup();
    for (const ms of [5, 200, 400, 700, 1_200]) {
      first.tookMs = ms;
      expect(await call()).toEqual([0]);
    }
    expect(connections).toHaveLength(1);
  });

  it('is called through a new connection when the first stops answering, within the same call and from then on', async () => {
    const { time, first, connections, call } = setup();
    await call();
    first.tookMs = Infinity;
    const from = time.nowMs;
    expect(await call()).toEqual([1]);
    expect(time.nowMs - from).toBeLessThan(5_000 / 2);
    expect(await call()).toEqual([1]);
    expect([first.sent, connections[1]?.sent]).toEqual([2, 2]);
  });

  it('gets a third connection when the second stops answering as well, and the second is closed', async () => {
    const { first, connections, call } = setup();
    first.tookMs = Infinity;
    expect(await call()).toEqual([1]);
    (connections[1] as Connection).tookMs = Infinity;
    expect(await call()).toEqual([2]);
    expect(connections.map(connection => connection.isClosed)).toEqual([false, true, false]);
  });

  it('opens one new connection for all calls that wait at the same time', async () => {
    const { first, connections, call } = setup();
    first.tookMs = Infinity;
    expect(await call(50)).toEqual(Array.from({ length: 50 }, () => 1));
    expect(connections).toHaveLength(2);
  });

  it('is unavailable after one lease when no connection answers, and is tried again', async () => {
    const { first, connections, call, opensWith } = setup();
    first.tookMs = Infinity;
    opensWith(Infinity);
    expect(await call()).toEqual(['ERR_STORE_UNAVAILABLE']);
    opensWith(5);
    expect(await call()).toEqual([2]);
    expect(connections[1]?.isClosed).toBe(true);
  });

  it('is waited for when it can have only one connection', async () => {
    const { first, call } = setup({ hasSpare: false });
    first.tookMs = 15_000;
    expect(await call()).toEqual([0]);
  });

  it('closes its second connection when it is closed', async () => {
    const { first, connections, hedged, call } = setup();
    first.tookMs = Infinity;
    await call();
    await hedged.close();
    expect(connections[1]?.isClosed).toBe(true);
  });
});
