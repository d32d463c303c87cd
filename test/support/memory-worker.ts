import { ledgerBroker } from '../../src/testing/memory/memory-broker.ts';
import { MemoryControlStore } from '../../src/testing/memory/memory-control-store.ts';
import { MemoryIdempotencyStore } from '../../src/testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import { outlastError } from '../../src/errors/error.ts';
import type { RunRef, StepStatus } from '../../src/ledger/ledger.ts';
import { ALONE, composeTask } from '../../src/outbox/compose.ts';
import { envelopeOf } from '../../src/outbox/outbox-writer.ts';
import { noFaults } from '../../src/runtime/runtime.ts';
import { task, type SendOptions } from '../../src/task/define-task.ts';
import type { Duration } from '../../src/task/duration.ts';
import { NO_KEYS } from '../../src/task/keyring.ts';
import type { EventSink } from '../../src/telemetry/events.ts';
import { silentLogger } from '../../src/telemetry/logger.ts';
import type { HandlerOrigin } from '../../src/worker/effects/door.ts';
import { defineHandler } from '../../src/worker/handler.ts';
import { LoopHeartbeat } from '../../src/worker/lease/heartbeat.ts';
import type { RunObserver } from '../../src/worker/run-observer.ts';
import { Worker } from '../../src/worker/worker.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';

export const LEASE_MS = 5_000;
export const away = (): Promise<never> =>
  Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }));

/** A worker on a store that can be cut off, under a clock that the test moves. */
export function memoryWorker(shutdownTimeoutMs = 0, timeout: Duration = '1h', idempotent = false) {
  const time = new VirtualTime();
  const { clock } = time;
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
  /** The database of the effects. */
  const effects = { isAway: false, asked: 0 };
  /** A door that raises the epoch of every run above the epoch it has seen. */
  const origin: HandlerOrigin = {
    door: ({ ledger: asked }) => ({
      locksTask: false,
      pass: async (run, _step, fn) => {
        effects.asked += 1;
        await new Promise<void>(resolve => void time.after(1, resolve));
        if (effects.isAway) return await away();
        await asked.raiseEpoch(run, seen.epoch ?? 0);
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
  const forceStop = new AbortController();
  const heartbeat = new LoopHeartbeat(ledger, runtime, 1_000);
  const ranMs: number[] = [];
  const ignore = (): void => undefined;
  const observer: RunObserver = {
    parked: ignore,
    held: ignore,
    expired: ignore,
    starting: () => null,
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
    heartbeat,
    control,
    settings,
    forceStop: forceStop.signal,
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
    effects,
    ranMs,
    commits,
    committed,
    arrive,
    finish: () => finish(),
    hold,
    handling: () => handling,
    forceStop,
    ownerOf: (id: string) => store.state.records.get(id)?.worker ?? '',
    cut: (value: boolean) => void (isAway = value),
  };
}
