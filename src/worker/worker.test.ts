import { describe, expect, it } from 'vitest';
import type { VirtualTime } from '../testing/virtual-time.ts';
import { away, LEASE_MS, memoryWorker } from '../../test/support/memory-worker.ts';

describe('a worker whose effect database is away', () => {
  it('retries its tasks with growing delays, spends no attempt, and finishes them when it is back', async () => {
    const { time, store, worker, effects, seen, told, arrive, finish } = memoryWorker();
    finish();
    Object.assign(seen, { epoch: 0 });
    effects.isAway = true;
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) ids.push(await arrive(`effect ${n}`));
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(20_000);
    // As often as random delays up to 0.5, 1, 2, 4 and 8 s allow.
    expect(effects.asked).toBeLessThanOrEqual(20 * 8);
    expect(told.filter(event => event.startsWith('task:released'))).toHaveLength(effects.asked);
    effects.isAway = false;
    await time.runUntil(60_000);
    for (const id of ids)
      expect(store.state.records.get(id)).toMatchObject({ state: 'done', failures: 0, crashes: 0 });
    stop.abort();
    await time.runUntil(time.nowMs + 30_000);
    await running;
  });
});

describe('a worker whose heartbeats are not answered', () => {
  it('aborts its handlers before its lease ends, begins no tasks, and releases its runs when the store is back', async () => {
    const { time, store, worker, aborts, arrive, cut } = memoryWorker();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(2_500);
    expect(store.state.records.get(id)?.state).toBe('running');
    cut(true);
    await time.runUntil(2_000 + LEASE_MS);
    // The last answered heartbeat was sent at 2 s: the abort comes a margin before that lease ends.
    expect(aborts).toHaveLength(1);
    expect(aborts[0]).toBeGreaterThan(2_500);
    expect(aborts[0]).toBeLessThanOrEqual(2_000 + LEASE_MS - 1_000);
    expect(store.state.records.get(id)).toMatchObject({ state: 'running', epoch: 1 });
    cut(false);
    await time.runUntil(12_000);
    expect(store.state.records.get(id)).toMatchObject({ failures: 0, crashes: 0 });
    expect(store.state.records.get(id)?.epoch).toBeGreaterThan(1);
    stop.abort();
    await time.runUntil(30_000);
    await running;
    expect(store.state.records.get(id)?.state).toBe('waiting');
  });

  it('keeps its incarnation and its runs when the store is back within its lease', async () => {
    const { time, store, worker, aborts, arrive, cut, ownerOf } = memoryWorker();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(2_500);
    for (let outage = 0; outage < 3; outage++) {
      cut(true);
      await time.runUntil(time.nowMs + 1_600);
      cut(false);
      await time.runUntil(time.nowMs + 1_400);
      await store.condemn({ kind: 'expired' });
    }
    const owner = ownerOf(id);
    await time.runUntil(60_000);
    await store.condemn({ kind: 'expired' });
    expect(store.state.records.get(id)).toMatchObject({
      state: 'running',
      epoch: 1,
      worker: owner,
    });
    expect(await store.renew(owner)).toMatchObject({ status: 'open' });
    expect(aborts).toEqual([]);
    stop.abort();
    await time.runUntil(90_000);
    await running;
  });
});

describe('a late answer of the store', () => {
  const late = <T>(time: VirtualTime, ms: number, answer: T): Promise<T> =>
    new Promise(resolve => void time.after(ms, () => resolve(answer)));

  it('to a begin is awaited: a heartbeat meanwhile does not release its tasks as unknown', async () => {
    const { time, store, worker, arrive, handling } = memoryWorker();
    const begin = store.begin.bind(store);
    store.begin = async request => await late(time, 2_500, await begin(request));
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    while (handling() === 0) await time.runUntil(time.nowMs + 100);
    await time.runUntil(time.nowMs + 1_500);
    expect(store.state.records.get(id)).toMatchObject({ state: 'running', epoch: 1 });
    stop.abort();
    await time.runUntil(time.nowMs + 20_000);
    await running;
  });

  it('to a heartbeat does not abort a run that was begun after the request', async () => {
    const { time, store, worker, aborts, arrive, handling } = memoryWorker();
    const renew = store.renew.bind(store);
    store.renew = async name => await late(time, 500, await renew(name));
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    await arrive();
    await time.runUntil(1_700);
    expect([handling(), aborts]).toEqual([1, []]);
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });

  it('or a missing one does not keep the worker from ending', async () => {
    const { time, worker, arrive, finish, cut } = memoryWorker();
    const stop = new AbortController();
    await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    cut(true);
    finish();
    stop.abort();
    let hasLeft = false;
    void running.then(() => (hasLeft = true));
    await time.runUntil(30_000);
    expect(hasLeft).toBe(true);
  });
});

describe('a run whose task was taken away', () => {
  it('is aborted by the first heartbeat that is refused', async () => {
    const { time, store, worker, aborts, arrive, ownerOf } = memoryWorker();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    await store.condemn({ kind: 'worker', worker: ownerOf(id) });
    await time.runUntil(2_100);
    expect(aborts).toHaveLength(1);
    stop.abort();
    await time.runUntil(30_000);
    await running;
  });

  it('emits no end: only the run that ends the task emits it, once', async () => {
    const { time, store, worker, told, commits, arrive, finish, ownerOf } = memoryWorker();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    await store.condemn({ kind: 'worker', worker: ownerOf(id) });
    // Before the worker is notified, the first run ends and tries to commit.
    finish();
    await store.reap(10);
    await time.runUntil(10_000);
    expect(store.state.records.get(id)).toMatchObject({ state: 'done', failures: 0, crashes: 1 });
    expect(told).toEqual(['task:started 1', 'task:stale 1', 'task:started 2', 'task:done 2']);
    expect(commits).toEqual(['stale', 'ok']);
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

describe('a run that has used its effect-once door', () => {
  /** Runs to its end through a door whose fence has this epoch. */
  async function pass(epoch: number) {
    const { time, store, worker, seen, commits, committed, arrive, finish } = memoryWorker();
    seen.epoch = epoch;
    finish();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(2_500);
    stop.abort();
    await time.runUntil(20_000);
    await running;
    return { epoch: store.state.records.get(id)?.epoch, commits, committed };
  }

  it('commits under its new epoch when the door has raised it', async () => {
    expect(await pass(10)).toMatchObject({
      epoch: 11,
      commits: ['ok'],
      committed: [{ epoch: 11 }],
    });
  });

  it('commits as it was begun when the door has only checked, so that the ledger need not read its record', async () => {
    const { epoch, commits, committed } = await pass(0);
    expect([epoch, commits]).toEqual([1, ['ok']]);
    expect(committed[0]).toHaveProperty('envelope');
  });
});

describe('a run that the store lists and the worker does not know', () => {
  it('is released, so that its task is begun again', async () => {
    const { time, store, worker, arrive, ownerOf } = memoryWorker();
    const stop = new AbortController();
    const first = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(500);
    // Like a begin whose reply was lost and whose repetition was lost too.
    const second = await arrive('two');
    const ghost = { run: 'ghost', queues: ['default'], limit: 1, suspects: 1, messages: [] };
    await store.begin({ worker: ownerOf(first), ...ghost, crashBudgets: { '*': 5 } });
    expect(store.state.records.get(second)).toMatchObject({ state: 'running', run: 'ghost' });
    await time.runUntil(6_000);
    expect(store.state.records.get(second)).toMatchObject({ state: 'running', epoch: 2 });
    expect(store.state.records.get(second)).toMatchObject({ failures: 0, crashes: 0 });
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

describe('a run that fails with an error outside its handler', () => {
  it('counts as a crash: a task that fails so every time becomes a dead letter, and other tasks go on', async () => {
    const { time, store, worker, arrive, finish } = memoryWorker();
    const stop = new AbortController();
    const broken = await arrive('broken');
    const other = await arrive('other');
    const running = worker.run(stop.signal);
    await time.runUntil(10_000);
    expect(store.state.records.get(broken)).toMatchObject({
      state: 'dead',
      failures: 0,
      error: { type: 'ERR_RESURRECTIONS_SPENT', message: 'a defect of ours' },
    });
    finish();
    await time.runUntil(11_000);
    expect(store.state.records.get(other)?.state).toBe('done');
    stop.abort();
    await time.runUntil(30_000);
    await running;
  });
});

describe('a worker whose queue is paused', () => {
  it('stops beginning tasks within a second, lets running ones finish, and begins again when it is resumed', async () => {
    const { time, store, control, worker, aborts, arrive } = memoryWorker();
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    const first = await arrive();
    await time.runUntil(500);
    await control.pause('default');
    await time.runUntil(1_600);
    const second = await arrive('two');
    await time.runUntil(10_000);
    expect(store.state.records.get(first)?.state).toBe('running');
    expect(store.state.records.get(second)?.state).toBe('waiting');
    expect(aborts).toEqual([]);
    await control.resume('default');
    await time.runUntil(12_000);
    expect(store.state.records.get(second)?.state).toBe('running');
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

describe('a worker that drains', () => {
  it('does not commit a run whose result cannot be stored for duplicates, and releases it', async () => {
    const { time, store, keys, worker, arrive, finish, forceStop } = memoryWorker(
      30_000,
      '1h',
      true,
    );
    const id = await arrive();
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    // The ledger answers; the key store does not.
    keys.complete = away;
    finish();
    await time.runUntil(3_000);
    expect(store.state.records.get(id)?.state).toBe('running');
    stop.abort();
    forceStop.abort();
    await time.runUntil(5_000);
    await running;
    expect(store.state.records.get(id)).toMatchObject({ state: 'waiting', failures: 0 });
  });

  it('releases running tasks at once at the second signal', async () => {
    const { time, store, worker, aborts, arrive, forceStop } = memoryWorker(30_000);
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    stop.abort();
    await time.runUntil(5_000);
    expect(store.state.records.get(id)?.state).toBe('running');
    forceStop.abort();
    await time.runUntil(5_100);
    await running;
    expect(aborts).toEqual([5_000]);
    expect(store.state.records.get(id)).toMatchObject({
      state: 'waiting',
      failures: 0,
      crashes: 0,
    });
  });
});
