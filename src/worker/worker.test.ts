import { describe, expect, it } from 'vitest';
import { ledgerBroker } from '../adapters/memory/memory-broker.ts';
import { MemoryControlStore } from '../adapters/memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from '../adapters/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../adapters/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../adapters/memory/memory-ledger-reads.ts';
import { outlastError } from '../errors/error.ts';
import { ALONE, composeTask } from '../outbox/compose.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { task } from '../task/define-task.ts';
import { NO_KEYS } from '../task/keyring.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { VirtualTime } from '../../test/sim/virtual-time.ts';
import { defineHandler } from './handler.ts';
import { LoopHeart } from './heart.ts';
import { Worker } from './worker.ts';

const LEASE_MS = 5_000;
const away = (): Promise<never> =>
  Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }));

/** A worker on a store that can be cut off, under a clock that the test moves. */
function setup() {
  const time = new VirtualTime();
  const clock = {
    now: () => time.nowMs,
    monotonic: () => time.nowMs,
    timer: (ms: number, fn: () => void) => time.after(ms, fn),
  };
  const store = new MemoryLedger({ clock });
  let isAway = false;
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
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit: noEvents };
  const aborts: number[] = [];
  const long = task('worker.long');
  const unused = { door: () => ({ pass: away, fence: away }), sendInside: away };
  const handler = defineHandler(
    long,
    (_, ctx) =>
      new Promise<void>((_resolve, reject) =>
        ctx.signal.addEventListener('abort', () => {
          aborts.push(time.nowMs);
          reject(new Error('aborted'));
        }),
      ),
    unused,
  );
  const settings = {
    queues: { default: 1 },
    concurrency: 5,
    leaseMs: LEASE_MS,
    idleTimeMs: 1_000,
    shutdownTimeoutMs: 0,
    dedupWindowMs: 60_000,
    resultTtlMs: 60_000,
    ackOn: 'commit' as const,
    process: 'p',
    host: 'h',
    pid: 1,
  };
  const control = new MemoryControlStore(clock);
  const heart = new LoopHeart(ledger, runtime, 1_000);
  const worker = new Worker({
    ledger,
    broker: ledgerBroker(store),
    keys: { store: new MemoryIdempotencyStore(clock), reads: new MemoryLedgerReads(store) },
    handlers: new Map([[long.name, handler]]),
    runtime,
    heart,
    control,
    settings,
  });
  const arrive = async (id = 'one'): Promise<string> => {
    const deps = {
      nowMs: 0,
      newId: () => id,
      maxPayloadBytes: 1_000,
      redact: null,
      keyring: NO_KEYS,
      parent: null,
    };
    const { envelope } = await composeTask(long.with(), ALONE, deps);
    store.receive(envelope);
    return envelope.id;
  };
  return {
    time,
    store,
    control,
    worker,
    aborts,
    arrive,
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
