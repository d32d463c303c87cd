import { describe, expect, it } from 'vitest';
import type { VirtualTime } from '../../test/sim/virtual-time.ts';
import { away, LEASE_MS, memoryWorker } from '../../test/support/memory-worker.ts';

describe('a worker whose tasks have their effects in a database that is away', () => {
  it('runs each of them now and then, spends no attempt, and goes on when it is back', async () => {
    const { time, store, worker, effects, seen, told, arrive, finish } = memoryWorker();
    finish();
    Object.assign(seen, { epoch: 0 });
    effects.isAway = true;
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) ids.push(await arrive(`effect ${n}`));
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(20_000);
    // As often as delays of 0.5, 1, 2, 4 and 8 s let it, less by chance.
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

describe('a worker whose beats are not answered', () => {
  it('aborts its handlers before its lease is over, begins nothing, and gives them back when the store is there again', async () => {
    const { time, store, worker, aborts, arrive, cut } = memoryWorker();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(2_500);
    expect(store.state.records.get(id)?.state).toBe('running');
    cut(true);
    await time.runUntil(2_000 + LEASE_MS);
    // The last answered beat was sent at 2 s: the abort comes within its lease, with the margin to spare.
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

  it('beats on when the store is back within its lease, and nobody notices', async () => {
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

describe('an answer of the store that comes late', () => {
  const late = <T>(time: VirtualTime, ms: number, answer: T): Promise<T> =>
    new Promise(resolve => void time.after(ms, () => resolve(answer)));

  it('to a begin is waited for: what it brings is not taken for forgotten by a beat meanwhile', async () => {
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

  it('to a beat says nothing of what was begun since it was asked', async () => {
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

  it('or never keeps nobody from leaving', async () => {
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
  it('is aborted by the first beat that is refused', async () => {
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

  it('tells of no end: whoever ends the task tells it, once', async () => {
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
    expect(told).toEqual(['task:started 1', 'task:started 2', 'task:done 2']);
    expect(commits).toEqual(['stale', 'ok']);
    stop.abort();
    await time.runUntil(20_000);
    await running;
  });
});

describe('a run that has passed a door', () => {
  /** Runs to its end through a door that has seen this epoch. */
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

  it('commits under the epoch it has since, where that has lifted it', async () => {
    expect(await pass(10)).toMatchObject({
      epoch: 11,
      commits: ['ok'],
      committed: [{ epoch: 11 }],
    });
  });

  it('commits as it was begun where that has only asked: the ledger need not read its record', async () => {
    const { epoch, commits, committed } = await pass(0);
    expect([epoch, commits]).toEqual([1, ['ok']]);
    expect(committed[0]).toHaveProperty('envelope');
  });
});

describe('a run that the store lists and the worker does not know', () => {
  it('is given back: a living process keeps nothing that nobody runs', async () => {
    const { time, store, worker, arrive, ownerOf } = memoryWorker();
    const stop = new AbortController();
    const first = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(500);
    // Like a begin of which neither the reply nor a repeat came through.
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

describe('a run that breaks off by an error that is not its handler’s', () => {
  it('counts as a crash: a task that does so every time ends as a dead letter, and others go on', async () => {
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
  it('begins nothing more within a second, lets go on what runs, and begins again when it is resumed', async () => {
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
  it('commits nothing whose result may not be kept for duplicates, and gives it back', async () => {
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

  it('gives back at once what still runs when it is told a second time', async () => {
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
