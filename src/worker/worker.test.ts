import { describe, expect, it } from 'vitest';
import { ledgerBroker } from '../adapters/memory/memory-broker.ts';
import { MemoryControlStore } from '../adapters/memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from '../adapters/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../adapters/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../adapters/memory/memory-ledger-reads.ts';
import { outlastError } from '../errors/error.ts';
import type { BeginRequest, RunRef, StepStatus } from '../ledger/ledger.ts';
import { ALONE, composeTask } from '../outbox/compose.ts';
import { envelopeOf } from '../outbox/outbox-writer.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { task, type SendOptions } from '../task/define-task.ts';
import type { Duration } from '../task/duration.ts';
import { NO_KEYS } from '../task/keyring.ts';
import type { EventSink } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { VirtualTime } from '../../test/sim/virtual-time.ts';
import type { HandlerOrigin } from './door.ts';
import { defineHandler } from './handler.ts';
import { LoopHeart } from './heart.ts';
import type { RunObserver } from './run-observer.ts';
import { Worker } from './worker.ts';

const LEASE_MS = 5_000;
const away = (): Promise<never> =>
  Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }));

/** A worker on a store that can be cut off, under a clock that the test moves. */
function setup(shutdownTimeoutMs = 0, timeout: Duration = '1h', idempotent = false) {
  const time = new VirtualTime();
  const clock = {
    now: () => time.nowMs,
    monotonic: () => time.nowMs,
    timer: (ms: number, fn: () => void) => time.after(ms, fn),
  };
  const store = new MemoryLedger({ clock });
  let isAway = false;
  const commits: StepStatus[] = [];
  const committed: RunRef[] = [];
  const commit = store.commit.bind(store);
  store.commit = async items => {
    committed.push(...items.map(({ ref }) => ref));
    const statuses = await commit(items);
    commits.push(...statuses);
    return statuses;
  };
  const ledger = new Proxy(store, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown =>
        isAway ? away() : (value as (...given: unknown[]) => unknown).apply(target, args);
    },
  });
  let token = 0;
  const random = { next: () => 0.5, token: () => `t${++token}` };
  const told: string[] = [];
  const drained: number[] = [];
  const emit: EventSink = (event, payload) => {
    if ('released' in payload) drained.push(payload.released);
    if (event.startsWith('task:')) told.push(`${event} ${'epoch' in payload ? payload.epoch : ''}`);
  };
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit };
  const aborts: number[] = [];
  let [finish, finished] = [(): void => undefined, Promise.resolve()];
  const hold = (): void => void (finished = new Promise<void>(resolve => (finish = resolve)));
  hold();
  let handling = 0;
  const long = task('worker.long', { timeout, idempotent });
  const keys = new MemoryIdempotencyStore(clock);
  const seen: { epoch: number | null } = { epoch: null };
  /** A door that lifts every run above the epoch it has seen. */
  const origin: HandlerOrigin = {
    door: ({ ledger: asked }) => ({
      pass: async (run, _step, fn) => {
        await asked.lift(run, seen.epoch ?? 0);
        return await fn(null);
      },
      fence: away,
    }),
    sendInside: away,
  };
  const handler = defineHandler(
    long,
    async (_, ctx) => {
      if (seen.epoch !== null) await ctx.transaction(async () => undefined);
      await new Promise<void>((resolve, reject) => {
        handling += 1;
        ctx.signal.addEventListener('abort', () => {
          aborts.push(time.nowMs);
          reject(new Error('aborted'));
        });
        void finished.then(resolve);
      }).finally(() => (handling -= 1));
    },
    origin,
  );
  const settings = {
    queues: { default: 1 },
    concurrency: 5,
    leaseMs: LEASE_MS,
    idleTimeMs: 1_000,
    shutdownTimeoutMs,
    dedupWindowMs: 60_000,
    resultTtlMs: 60_000,
    ackOn: 'commit' as const,
    process: 'p',
    host: 'h',
    pid: 1,
  };
  const control = new MemoryControlStore(clock);
  const hurry = new AbortController();
  const heart = new LoopHeart(ledger, runtime, 1_000);
  const ranMs: number[] = [];
  const ignore = (): void => undefined;
  const observer: RunObserver = {
    parked: ignore,
    held: ignore,
    expired: ignore,
    started: ({ id }) => {
      if (id === 'broken') throw new TypeError('a defect of ours');
    },
    lost: ignore,
    settled: (_, __, ms) => void ranMs.push(ms),
  };
  const worker = new Worker({
    observer,
    ledger,
    broker: ledgerBroker(store),
    keys: { store: keys, reads: new MemoryLedgerReads(store) },
    handlers: new Map([[long.name, handler]]),
    runtime,
    heart,
    control,
    settings,
    hurry: hurry.signal,
  });
  const arrive = async (id = 'one', options: SendOptions = {}): Promise<string> => {
    const deps = {
      nowMs: time.nowMs,
      newId: () => id,
      maxPayloadBytes: 1_000,
      redact: null,
      keyring: NO_KEYS,
      parent: null,
    };
    const envelope = envelopeOf(await composeTask(long.with(undefined, options), ALONE, deps));
    store.receive(envelope);
    return envelope.id;
  };
  return {
    time,
    store,
    keys,
    control,
    worker,
    aborts,
    told,
    drained,
    seen,
    ranMs,
    commits,
    committed,
    arrive,
    finish: () => finish(),
    hold,
    handling: () => handling,
    hurry,
    ownerOf: (id: string) => store.state.records.get(id)?.worker ?? '',
    cut: (value: boolean) => void (isAway = value),
  };
}

describe('a worker whose beats are not answered', () => {
  it('aborts its handlers before its lease is over, begins nothing, and gives them back when the store is there again', async () => {
    const { time, store, worker, aborts, arrive, cut } = setup();
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
    const { time, store, worker, aborts, arrive, cut, ownerOf } = setup();
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
    const { time, store, worker, arrive, handling } = setup();
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
    const { time, store, worker, aborts, arrive, handling } = setup();
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
    const { time, worker, arrive, finish, cut } = setup();
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
    const { time, store, worker, aborts, arrive, ownerOf } = setup();
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
    const { time, store, worker, told, commits, arrive, finish, ownerOf } = setup();
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    await store.condemn({ kind: 'worker', worker: ownerOf(id) });
    // Before anything tells the worker, the first run comes to its end and tries to commit.
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
  /** Through a door that has seen this epoch, to its end. */
  async function pass(epoch: number) {
    const { time, store, worker, seen, commits, committed, arrive, finish } = setup();
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
    const { time, store, worker, arrive, ownerOf } = setup();
    const stop = new AbortController();
    const first = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(500);
    // As a begin does of which neither the reply nor a repeat came through.
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
    const { time, store, worker, arrive, finish } = setup();
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

describe('a worker with more to do than it has places', () => {
  it('has one batch begun while it runs another, and promises no place and no suspect twice', async () => {
    const { time, store, worker, arrive, finish } = setup();
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

/** The same worker, once it has seen that its tasks are over in an instant; from then on they are held. */
async function warmUp(kit: ReturnType<typeof setup>) {
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
    const { time, records, arrive, handling, count, leave } = await warmUp(setup());
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
    const { time, records, arrive, count, leave } = await warmUp(setup());
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
  /** Five that run, and five that are begun and wait for their places. */
  async function wait(options: SendOptions, timeout?: Duration) {
    const kit = await warmUp(setup(20_000, timeout));
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
    // Those that had begun to run and did not come to an end are given back as well.
    expect(drained).toEqual([10]);
  });
});

describe('a worker whose queue is paused', () => {
  it('begins nothing more within a second, lets go on what runs, and begins again when it is resumed', async () => {
    const { time, store, control, worker, aborts, arrive } = setup();
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
    const { time, store, keys, worker, arrive, finish, hurry } = setup(30_000, '1h', true);
    const id = await arrive();
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    // The ledger answers; the keys do not.
    keys.complete = away;
    finish();
    await time.runUntil(3_000);
    expect(store.state.records.get(id)?.state).toBe('running');
    stop.abort();
    hurry.abort();
    await time.runUntil(5_000);
    await running;
    expect(store.state.records.get(id)).toMatchObject({ state: 'waiting', failures: 0 });
  });

  it('gives back at once what still runs when it is told a second time', async () => {
    const { time, store, worker, aborts, arrive, hurry } = setup(30_000);
    const stop = new AbortController();
    const id = await arrive();
    const running = worker.run(stop.signal);
    await time.runUntil(1_100);
    stop.abort();
    await time.runUntil(5_000);
    expect(store.state.records.get(id)?.state).toBe('running');
    hurry.abort();
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
