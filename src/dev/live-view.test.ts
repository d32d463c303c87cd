import { describe, expect, it } from 'vitest';
import type { Clock } from '../runtime/runtime.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { LiveView } from './live-view.ts';
import type { Snapshot } from './view.ts';

/** Time passes only when a test advances it. */
function setup() {
  let now = 0;
  let timers: { at: number; fn: () => void }[] = [];
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    timer: (ms, fn) => {
      const timer = { at: now + ms, fn };
      timers.push(timer);
      return () => void (timers = timers.filter(other => other !== timer));
    },
  };
  const pass = async (ms: number): Promise<void> => {
    const end = now + ms;
    for (;;) {
      await settle();
      const next = timers.toSorted((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      now = next.at;
      timers = timers.filter(timer => timer !== next);
      next.fn();
    }
    now = end;
  };
  let reads = 0;
  let pending = 0;
  const counts = { waiting: 0, running: 0, done: 0, dead: 0 };
  const read = (): Promise<Snapshot> => {
    reads++;
    const parts = { isDraining: false, database: '', workers: [], tasks: [] };
    return Promise.resolve({ ...parts, counts: { ...counts, pending } });
  };
  const view = new LiveView({ read, clock, log: silentLogger });
  return { view, pass, reads: () => reads, change: () => void pending++ };
}

const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve));
const pendingIn = (text: unknown): number =>
  (JSON.parse(text as string) as Snapshot).counts.pending;

describe('LiveView', () => {
  it('reads nothing while there are no viewers', async () => {
    const { pass, reads } = setup();
    await pass(10_000);
    expect(reads()).toBe(0);
  });

  it('reads once for all viewers, and sends each of them the changes', async () => {
    const { view, pass, reads, change } = setup();
    const { signal } = new AbortController();
    const viewers = [view.follow(signal), view.follow(signal)];
    const first = await Promise.all(viewers.map(viewer => viewer.next()));
    expect(first.map(({ value }) => pendingIn(value))).toEqual([0, 0]);
    expect(reads()).toBe(1);
    const next = viewers.map(viewer => viewer.next());
    change();
    await pass(1_000);
    expect((await Promise.all(next)).map(({ value }) => pendingIn(value))).toEqual([1, 1]);
  });

  it('sends a slow viewer only the newest snapshot', async () => {
    const { view, pass, change } = setup();
    const viewer = view.follow(new AbortController().signal);
    await viewer.next();
    for (let times = 0; times < 3; times++) {
      change();
      await pass(1_000);
    }
    expect(pendingIn((await viewer.next()).value)).toBe(3);
  });

  it('stops reading when the last viewer has left, and starts again for the next one', async () => {
    const { view, pass, reads, change } = setup();
    const left = new AbortController();
    const viewer = view.follow(left.signal);
    await viewer.next();
    const next = viewer.next();
    left.abort();
    expect((await next).done).toBe(true);
    await pass(1_000);
    const before = reads();
    await pass(60_000);
    expect(reads()).toBe(before);
    change();
    const { value } = await view.follow(new AbortController().signal).next();
    expect(pendingIn(value)).toBe(1);
  });

  it('sends its viewers the last snapshot when it stops, then ends their streams', async () => {
    const { view, pass, change } = setup();
    const viewer = view.follow(new AbortController().signal);
    await viewer.next();
    const last = viewer.next();
    change();
    const stopped = view.stop();
    await pass(1_000);
    await stopped;
    expect(pendingIn((await last).value)).toBe(1);
    expect((await viewer.next()).done).toBe(true);
  });
});
