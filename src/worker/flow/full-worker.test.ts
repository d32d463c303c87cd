import { describe, expect, it } from 'vitest';
import type { BeginRequest } from '../../ledger/ledger.ts';
import type { SendOptions } from '../../task/define-task.ts';
import type { Duration } from '../../task/duration.ts';
import { LEASE_MS, memoryWorker } from '../../../test/support/memory-worker.ts';

describe('a worker with more tasks than slots', () => {
  it('begins one batch while it runs another, and counts no slot and no suspect twice', async () => {
    const { time, store, worker, arrive, finish } = memoryWorker();
    finish();
    for (let n = 0; n < 40; n++) await arrive(`task ${n}`);
    const begin = store.begin.bind(store);
    const asked = new Set<BeginRequest>();
    const most = { batches: 0, slots: 0, suspects: 0 };
    store.begin = async request => {
      asked.add(request);
      const sum = (of: (asked: BeginRequest) => number): number =>
        [...asked].reduce((total, one) => total + of(one), 0);
      most.batches = Math.max(most.batches, asked.size);
      most.slots = Math.max(
        most.slots,
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
    expect(most).toEqual({ batches: 2, slots: 5, suspects: 1 });
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

/** The same worker after it has measured that its tasks are very short. From then on handlers wait for the test. */
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

describe('a worker whose tasks are very short', () => {
  it('begins the next batch early, runs no more handlers than slots, and gives back tasks that get no slot soon', async () => {
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

  it('begins no task early while tasks come back from a crash, because one of them may have caused it', async () => {
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

describe('a task that is begun before a slot is free', () => {
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

  it('does not start when it expires before it gets a slot, and counts as expired', async () => {
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

  it('has its whole timeout from the start of its handler', async () => {
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

  it('is reported with the run time of its handler, without the wait', async () => {
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

  it('is released at once by a drain, without a start and without a count', async () => {
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
    // Runs that had started and did not end are released as well.
    expect(drained).toEqual([10]);
  });
});
