import { describe, expect, it } from 'vitest';
import type { RenewReply } from '../../ledger/ledger.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { HedgedHeartbeat, type HeartbeatLink } from './hedged-heartbeat.ts';

const OPEN: RenewReply = { status: 'open', runs: [] };

/** Connections whose opening and reply times the test sets; Infinity: never. */
function setup() {
  const time = new VirtualTime();
  const { clock } = time;
  const links: { tookMs: number; isClosed: boolean; sent: number[]; lists: unknown[] }[] = [];
  let nextMs = 5;
  let openingMs = 0;
  const open = async (): Promise<HeartbeatLink> => {
    if (openingMs < 0) throw new Error('no connection');
    if (openingMs > 0)
      await new Promise<void>(resolve => openingMs < Infinity && time.after(openingMs, resolve));
    const link = { tookMs: nextMs, isClosed: false, sent: [] as number[], lists: [] as unknown[] };
    links.push(link);
    return {
      renew: (_, listsRuns) => {
        link.sent.push(time.nowMs);
        link.lists.push(listsRuns);
        return new Promise((resolve, reject) => {
          if (link.tookMs < 0) reject(new Error('refused'));
          else if (link.tookMs < Infinity) time.after(link.tookMs, () => resolve(OPEN));
        });
      },
      close: async () => void (link.isClosed = true),
    };
  };
  const heartbeat = new HedgedHeartbeat(open, clock, { beatMs: 1_000, leaseMs: 5_000 });
  const beat = async (): Promise<number | string> => {
    const sending = heartbeat.renew('w').then(
      ({ sentAt }) => sentAt,
      (error: Error) => error.message,
    );
    void sending.then(() => time.stop());
    await time.runUntil(time.nowMs + 10_000);
    return await sending;
  };
  const opensIn = (ms: number): void => void (openingMs = ms);
  return { time, links, beat, opensIn, opensWith: (ms: number) => void (nextMs = ms) };
}

describe('heartbeats', () => {
  it('use one connection while it answers', async () => {
    const { links, beat } = setup();
    for (let n = 0; n < 5; n++) await beat();
    expect(links).toHaveLength(1);
    expect(links[0]?.isClosed).toBe(false);
  });

  it('use a new connection when the first stops answering, within the same beat and from then on', async () => {
    const { time, links, beat } = setup();
    await beat();
    const [dead] = links;
    if (dead) dead.tookMs = Infinity;
    const sentAt = time.nowMs;
    const answeredAt = await beat();
    // The lease counts from the beat on the second connection.
    expect(answeredAt).toBeGreaterThan(sentAt);
    expect(time.nowMs - sentAt).toBeLessThan(1_000);
    expect(links.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    await beat();
    expect(links).toHaveLength(2);
  });

  it('ask only the first connection what the worker runs, and less often where that is slow', async () => {
    const { time, links, beat } = setup();
    await beat();
    const [slow] = links;
    if (slow) slow.tookMs = Infinity;
    await time.runUntil(time.nowMs + 1_000);
    await beat();
    const [, second] = links;
    expect([slow?.lists, second?.lists]).toEqual([[true, true], [false]]);
    // The list may have been lost with its connection.
    if (second) second.tookMs = 300;
    await time.runUntil(time.nowMs + 1_000);
    await beat();
    await time.runUntil(time.nowMs + 1_000);
    await beat();
    expect(second?.lists).toEqual([false, true, false]);
  });

  it('keep the first connection when it answers late', async () => {
    const { links, beat, opensWith } = setup();
    await beat();
    opensWith(5_000);
    const [slow] = links;
    if (slow) slow.tookMs = 700;
    expect(typeof (await beat())).toBe('number');
    expect(links.map(({ isClosed }) => isClosed)).toEqual([false, true]);
  });

  it('open no second connection to a store that is always that slow', async () => {
    const { links, beat, opensWith } = setup();
    opensWith(700);
    for (let n = 0; n < 4; n++) await beat();
    // One was opened before the speed of the store was known.
    expect(links).toHaveLength(2);
  });

  it('fail when no connection answers, and the next one opens a new connection', async () => {
    const { links, beat, opensWith } = setup();
    await beat();
    opensWith(Infinity);
    for (const link of links) link.tookMs = Infinity;
    expect(await beat()).toMatch(/not answered/);
    expect(links.every(({ isClosed }) => isClosed)).toBe(true);
    opensWith(5);
    expect(typeof (await beat())).toBe('number');
    expect(links.filter(({ isClosed }) => !isClosed)).toHaveLength(1);
  });

  it('that are refused at once fail, and keep their connection', async () => {
    const { links, beat, opensWith } = setup();
    opensWith(-1);
    expect(await beat()).toBe('refused');
    expect(await beat()).toBe('refused');
    expect(links).toHaveLength(1);
  });

  it('fail after two beats when no connection can be opened, and the next one opens a new connection', async () => {
    const { time, links, beat, opensIn } = setup();
    opensIn(Infinity);
    expect(await beat()).toMatch(/not answered/);
    expect(time.nowMs).toBeLessThanOrEqual(3_000);
    opensIn(-1);
    expect(await beat()).toBe('no connection');
    opensIn(0);
    expect(typeof (await beat())).toBe('number');
    expect(links).toHaveLength(1);
  });

  it.each([
    ['does not open', Infinity],
    ['cannot be opened', -1],
    ['opens too late, and is closed then', 2_500],
  ])('accept a late answer of the first connection while the second %s', async (_, ms) => {
    const { time, links, beat, opensIn } = setup();
    await beat();
    opensIn(ms);
    const [slow] = links;
    if (slow) slow.tookMs = 1_000;
    expect(typeof (await beat())).toBe('number');
    expect(time.nowMs).toBeLessThan(1_100);
    await time.runUntil(5_000);
    expect(links.map(({ isClosed }) => isClosed)).toEqual(ms === 2_500 ? [false, true] : [false]);
  });
});
