import { describe, expect, it } from 'vitest';
import type { BeginRequest } from '../../ledger/ledger.ts';
import type { SendOptions } from '../../task/define-task.ts';
import type { Duration } from '../../task/duration.ts';
import { LEASE_MS, memoryWorker } from '../../../test/support/memory-worker.ts';

describe('a worker with more to do than it has places', () => {
  it('has one batch begun while it runs another, and promises no place and no suspect twice', async () => {
    const { time, store, worker, arrive, finish } = memoryWorker();
    finish();
    for (let n = 0; n < 40; n++) await arrive(`task ${n}`);
    const begin = store.begin.bind(store);
    const asked = new Set<BeginRequest>();
    const most = { batches: 0, places: 0, suspects: 0 };
    store.begin = async request => {
      asked.add(request);
      const sum = (of: (asked: BeginRequest) => number): number =>
        [...asked].reduce((total, one) => total + of(one), 0);
      most.batches = Math.max(most.batches, asked.size);
      most.places = Math.max(
        most.places,
        sum(({ limit }) => limit),
      );
      most.suspects = Math.max(
        most.suspects,
        sum(({ suspects }) => suspects),
      );
      await new Promise<void>(resolve => void time.after(10, resolve));
      asked.delete(request);
      return await begin(request);
    };
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(3_000);
    const states = [...store.state.records.values()].map(({ state }) => state);
    expect(states).toEqual(Array.from({ length: 40 }, () => 'done'));
    expect(most).toEqual({ batches: 2, places: 5, suspects: 1 });
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

/** The same worker, once it has seen that its tasks are very short; from then on they are held. */
async function warmUp(kit: ReturnType<typeof memoryWorker>) {
  const { time, store, worker, arrive, finish, hold } = kit;
  const count = (state: string): number =>
    [...store.state.records.values()].filter(record => record.state === state).length;
  finish();
  for (let n = 0; n < 200; n++) await arrive(`short ${n}`);
  const stop = new AbortController();
  const running = worker.run(stop.signal);
  while (count('done') < 200) await time.runUntil(time.nowMs + 100);
  hold();
  const leave = async (): Promise<void> => {
    stop.abort();
    await time.runUntil(time.nowMs + 30_000);
    await running;
  };
  return { ...kit, records: store.state.records, count, stop, leave };
}

describe('a worker whose tasks are over in an instant', () => {
  it('begins the next batch early, runs no more at once than it has places, and gives back what has none soon', async () => {
    const { time, records, arrive, handling, count, leave } = await warmUp(memoryWorker());
    for (let n = 0; n < 30; n++) await arrive(`long ${n}`);
    while (count('running') < 20 || handling() === 0) await time.runUntil(time.nowMs + 1);
    expect(handling()).toBe(5);
    while (count('running') > 5) await time.runUntil(time.nowMs + 1);
    expect(handling()).toBe(5);
    await time.runUntil(time.nowMs + 2 * LEASE_MS);
    expect([count('running'), count('waiting'), handling()]).toEqual([5, 25, 5]);
    for (const record of records.values())
      expect(record).toMatchObject({ failures: 0, crashes: 0 });
    await leave();
    expect(count('waiting')).toBe(30);
  });

  it('begins nothing early while tasks come back from a crash: the one that did it may be among them', async () => {
    const { time, records, arrive, count, leave } = await warmUp(memoryWorker());
    for (let n = 0; n < 30; n++)
      Object.assign(records.get(await arrive(`back ${n}`)) ?? {}, { crashes: 1 });
    let most = 0;
    for (let step = 0; step < 200; step++) {
      await time.runUntil(time.nowMs + 1);
      most = Math.max(most, count('running'));
    }
    expect(most).toBe(5);
    await leave();
  });
});

describe('a task that is begun before there is a place for it', () => {
  /** Five tasks that run, and five that are begun and wait for a slot. */
  async function wait(options: SendOptions, timeout?: Duration) {
    const kit = await warmUp(memoryWorker(20_000, timeout));
    const { time, worker, arrive, handling } = kit;
    for (let n = 0; n < 5; n++) await arrive(`long ${n}`);
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await arrive(`begun ${n}`, options));
    while (worker.runs.length < 10 || handling() === 0) await time.runUntil(time.nowMs + 1);
    expect(handling()).toBe(5);
    return { ...kit, ids };
  }

  it('does not start when it expires meanwhile, and is counted as expired', async () => {
    const { time, told, ids, records, finish, leave } = await wait({ expires: '100ms' });
    const before = told.filter(event => event.startsWith('task:started')).length;
    await time.runUntil(time.nowMs + 120);
    finish();
    await time.runUntil(time.nowMs + 2_000);
    for (const id of ids)
      expect(records.get(id)).toMatchObject({ state: 'cancelled', ending: 'expired' });
    expect(told.filter(event => event.startsWith('task:started'))).toHaveLength(before);
    expect(told.filter(event => event.startsWith('task:expired'))).toHaveLength(ids.length);
    await leave();
  });

  it('has its whole timeout from when it runs', async () => {
    const { time, aborts, ids, records, handling, finish, hold, leave } = await wait({}, '300ms');
    await time.runUntil(time.nowMs + 200);
    finish();
    hold();
    await time.runUntil(time.nowMs + 250);
    expect([handling(), aborts]).toEqual([5, []]);
    await time.runUntil(time.nowMs + 100);
    expect(ids.map(id => records.get(id)?.failures)).toEqual([1, 1, 1, 1, 1]);
    await leave();
  });

  it('is told to have run for as long as its handler did, without the wait', async () => {
    const { time, ranMs, finish, hold, leave } = await wait({});
    await time.runUntil(time.nowMs + 200);
    finish();
    hold();
    await time.runUntil(time.nowMs + 50);
    finish();
    await time.runUntil(time.nowMs + 10);
    expect(ranMs.slice(-5).every(ms => ms >= 40 && ms < 100)).toBe(true);
    await leave();
  });

  it('leaves with a drain at once, before it has started, and nothing is counted', async () => {
    const { time, told, drained, records, count, handling, stop, leave } = await wait({});
    const before = told.length;
    stop.abort();
    const untilMs = time.nowMs + 50;
    while (count('waiting') < 5 && time.nowMs < untilMs) await time.runUntil(time.nowMs + 1);
    expect(count('waiting')).toBe(5);
    for (const record of records.values())
      expect(record).toMatchObject({ failures: 0, crashes: 0 });
    expect([handling(), told.slice(before)]).toEqual([5, []]);
    await leave();
    // Runs that had started and did not end are given back as well.
    expect(drained).toEqual([10]);
  });
});
