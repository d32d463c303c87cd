import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../testing/virtual-time.ts';
import type { BegunTask, RaiseReply, StepStatus } from '../../ledger/ledger.ts';
import { noFaults } from '../../runtime/runtime.ts';
import { task } from '../../task/define-task.ts';
import { digestOf } from '../../task/digest.ts';
import type { EnvelopeOptions } from '../../task/envelope.ts';
import { toBytes } from '../../task/json.ts';
import { noEvents } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { outlastError } from '../../errors/error.ts';
import { defineHandler } from '../handler.ts';
import type { FromIsolate, IsolateListener, Isolate, ToIsolate } from './isolate.ts';
import { runInIsolate } from './run-in-isolate.ts';
import { RunStop, type StopReason } from '../run/settlement.ts';

const contract = task('isolate.task');
const handler = defineHandler(
  contract,
  {
    mode: 'process',
    maxResurrections: 1,
    retry: { backoff: '1s', jitter: 'none' },
    run: () => undefined,
  },
  {
    door: () => ({
      locksTask: false,
      pass: () => Promise.resolve(null),
      fence: () => Promise.resolve(),
    }),
    sendInside: () => Promise.resolve(''),
  },
);

function begun(options: EnvelopeOptions, crashes: number, expiresMs: number | null): BegunTask {
  const body = toBytes('[[],{},null]');
  const identity = { id: 'one', name: contract.name, version: 1, body };
  const envelope = {
    ...identity,
    queue: 'default',
    priority: 0,
    options: toBytes(JSON.stringify(options)),
    digest: digestOf(identity),
    etaMs: null,
    expiresMs,
  };
  const ref = { id: 'one', epoch: 1, run: 'r' };
  return {
    ...ref,
    envelope,
    failures: 0,
    crashes,
    isSuspect: false,
    checkpoint: null,
    checkpointSeq: 0,
  };
}

interface Circumstances {
  readonly openError?: Error;
  /** When an isolate is free, in milliseconds from now. */
  readonly isolateMs?: number;
  readonly expiresMs?: number;
  readonly workerTimeoutMs?: number;
  readonly isLeaseOver?: () => boolean;
}

/** A run in an isolate that the test controls. */
function setup(
  options: EnvelopeOptions = {},
  crashes = 0,
  {
    openError,
    isolateMs = 0,
    expiresMs,
    workerTimeoutMs,
    isLeaseOver = () => false,
  }: Circumstances = {},
) {
  const time = new VirtualTime();
  const { clock } = time;
  const random = { next: () => 0.5, token: () => 't' };
  const warned: string[] = [];
  const log = { ...silentLogger, warn: (_: object, text: string) => void warned.push(text) };
  const runtime = { clock, random, faultPoint: noFaults, log, emit: noEvents };
  const posted: ToIsolate[] = [];
  let receive: IsolateListener = () => undefined;
  let resolveEnd: (how: Error) => void = () => undefined;
  const end = (how: Error): void => {
    receive({ kind: 'ended', how });
    resolveEnd(how);
  };
  let killedAt: number | null = null;
  const ended = new Promise<Error>(resolve => void (resolveEnd = resolve));
  const isolate: Isolate = {
    mode: 'process',
    tasks: new Set([contract.name]),
    rssBytes: 0,
    isOpen: true,
    ended,
    post: message => void posted.push(message),
    listen: fn => void (receive = fn ?? (() => undefined)),
    kill: async () => {
      killedAt = time.nowMs;
      end(new Error('killed'));
      await ended;
    },
  };
  const draining = new AbortController();
  const stop = new RunStop(draining.signal);
  let hasLeft = false;
  const isolates = {
    enter: () =>
      openError
        ? Promise.reject(openError)
        : new Promise<Isolate>(resolve =>
            isolateMs === 0 ? resolve(isolate) : time.after(isolateMs, () => resolve(isolate)),
          ),
    leave: () => void (hasLeft = true),
  };
  const kept: number[] = [];
  let status: StepStatus | 'away' = 'ok';
  const ledger = {
    checkpoint: (_run: unknown, seq: number): Promise<StepStatus> => {
      kept.push(seq);
      if (status !== 'away') return Promise.resolve(status);
      const away = { message: 'away', hint: '', fields: {} };
      return Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', away));
    },
    raiseEpoch: (_run: unknown, above: number): Promise<RaiseReply> =>
      Promise.resolve({ status: 'ok', epoch: above + 1 }),
  };
  const settlement = runInIsolate(
    {
      task: {
        ...begun(options, crashes, expiresMs ?? null),
        ...(workerTimeoutMs === undefined ? {} : { timeoutMs: workerTimeoutMs }),
      },
      handler,
      mode: 'process',
      stop,
    },
    { isolates, ledger, runtime, isLeaseOver },
  );
  return {
    time,
    posted,
    warned,
    kept,
    settlement,
    draining,
    receive: (message: FromIsolate) => receive(message),
    end: (how: string) => end(new Error(how)),
    stop: (reason: StopReason) => stop.stop(reason),
    storeAnswers: (answer: StepStatus | 'away') => void (status = answer),
    killedAt: () => killedAt,
    hasLeft: () => hasLeft,
  };
}

const done = { kind: 'commit', outcome: { kind: 'done', result: null }, value: 'null' } as const;

describe('a run in an isolate', () => {
  it('ends with the settlement that the isolate sends, and gives the isolate back', async () => {
    const { time, posted, receive, settlement, hasLeft } = setup();
    await time.runUntil(1);
    expect(posted.map(({ kind }) => kind)).toEqual(['run']);
    receive({ kind: 'begun' });
    receive({ kind: 'settled', settlement: done, rssBytes: 1 });
    expect(await settlement).toEqual(done);
    expect(hasLeft()).toBe(true);
  });

  it('ignores its isolate after it has ended', async () => {
    const { time, settlement, warned, receive, end } = setup();
    await time.runUntil(1);
    receive({ kind: 'begun' });
    receive({ kind: 'settled', settlement: done, rssBytes: 1 });
    await settlement;
    end('closed with its worker');
    await time.runUntil(2);
    expect(warned).toEqual([]);
  });

  it('stores checkpoints, and passes the answer of the store to the isolate', async () => {
    const { time, posted, kept, receive, storeAnswers } = setup();
    await time.runUntil(1);
    receive({ kind: 'checkpoint', call: 1, seq: 4, data: toBytes('1') });
    await time.runUntil(2);
    storeAnswers('away');
    receive({ kind: 'checkpoint', call: 2, seq: 5, data: toBytes('2') });
    await time.runUntil(3);
    expect(kept).toEqual([4, 5]);
    expect(posted.slice(1)).toMatchObject([
      { kind: 'kept', call: 1, status: 'ok' },
      { kind: 'not-asked', call: 2, error: { fields: { code: 'ERR_STORE_UNAVAILABLE' } } },
    ]);
  });

  it('raises the epoch for its isolate, under the run of the worker', async () => {
    const { time, posted, receive } = setup();
    await time.runUntil(1);
    receive({ kind: 'raise', call: 1, above: 8 });
    await time.runUntil(2);
    expect(posted.slice(1)).toEqual([
      { kind: 'raised', call: 1, reply: { status: 'ok', epoch: 9 } },
    ]);
  });

  it('is a crash when its isolate ends, and the task is dead when its crash budget is spent', async () => {
    for (const [crashes, delayMs, reason] of [
      [0, 0, ''],
      [1, null, 'ERR_RESURRECTIONS_SPENT'],
    ] as const) {
      const { time, receive, end, settlement } = setup({}, crashes);
      await time.runUntil(1);
      receive({ kind: 'begun' });
      end('SIGSEGV');
      expect(await settlement).toMatchObject({ kind: 'fail', isCrash: true, delayMs, reason });
    }
  });

  it('is released when the isolate ended before it received the task', async () => {
    const { time, end, settlement } = setup();
    await time.runUntil(1);
    end('SIGKILL');
    const outage = { what: 'isolate', why: 'SIGKILL' };
    expect(await settlement).toEqual({ kind: 'release', outage });
  });

  it.each([
    ['is released without a start when its task expires while it waits for an isolate', 400, []],
    ['starts when only our clock considers it expired from the beginning', 0, ['run']],
    ['starts when it gets an isolate before its task expires', 501, ['run']],
  ])('%s', async (_, expiresMs, wanted) => {
    const { time, posted, settlement, hasLeft } = setup({}, 0, { isolateMs: 500, expiresMs });
    await time.runUntil(500);
    expect(posted.map(({ kind }) => kind)).toEqual(wanted);
    if (wanted.length > 0) return;
    expect(await settlement).toEqual({ kind: 'release' });
    expect(hasLeft()).toBe(true);
  });

  it('does not start when its lease has ended before it gets an isolate', async () => {
    const { time, posted, settlement } = setup({}, 0, { isolateMs: 500, isLeaseOver: () => true });
    await time.runUntil(500);
    expect([await settlement, posted]).toEqual([{ kind: 'release' }, []]);
  });

  it('is released without a count when no isolate can be opened', async () => {
    const { time, settlement } = setup({}, 0, { openError: new Error('EAGAIN') });
    await time.runUntil(1);
    const outage = { what: 'isolate', why: 'EAGAIN' };
    expect(await settlement).toEqual({ kind: 'release', outage });
  });

  it.each([
    ['its timeout', { timeoutMs: 10_000 }, {}],
    ['the timeout of its worker', {}, { workerTimeoutMs: 10_000 }],
  ])(
    'is killed at %s with half a second of grace, and is a failed attempt',
    async (_, own, more) => {
      const { time, receive, killedAt, settlement } = setup(own, 0, more);
      await time.runUntil(1);
      receive({ kind: 'begun' });
      await time.runUntil(10_400);
      expect(killedAt()).toBeNull();
      await time.runUntil(20_000);
      expect(killedAt()).toBe(10_500);
      expect(await settlement).toMatchObject({
        kind: 'fail',
        isCrash: false,
        delayMs: 1_000,
        error: { type: 'ERR_TIMEOUT', message: 'isolate.task ran longer than its timeout' },
      });
    },
  );

  it('is killed at its deadline, and its task gets no further attempt', async () => {
    const { time, killedAt, settlement } = setup({ deadlineMs: 5_000 });
    await time.runUntil(20_000);
    expect(killedAt()).toBe(5_500);
    expect(await settlement).toMatchObject({ kind: 'fail', delayMs: null, reason: 'ERR_TIMEOUT' });
  });

  it.each([
    ['lost', 'drop'],
    ['release', 'release'],
  ] as const)(
    'sends a stop (%s) to its isolate, and kills it when it does not end',
    async (reason, kind) => {
      const { time, posted, stop, killedAt, settlement } = setup();
      await time.runUntil(100);
      stop(reason);
      expect(posted.at(-1)).toEqual({ kind: 'stop', reason });
      await time.runUntil(1_000);
      expect(killedAt()).toBe(600);
      expect(await settlement).toEqual({ kind });
    },
  );

  it('does not kill an isolate that ends after the stop', async () => {
    const { time, receive, stop, killedAt, settlement } = setup();
    await time.runUntil(100);
    stop('release');
    receive({ kind: 'settled', settlement: { kind: 'release' }, rssBytes: 1 });
    expect(await settlement).toEqual({ kind: 'release' });
    await time.runUntil(10_000);
    expect(killedAt()).toBeNull();
  });

  it('forwards a drain to its isolate', async () => {
    const { time, posted, draining } = setup();
    await time.runUntil(1);
    draining.abort();
    expect(posted.at(-1)).toEqual({ kind: 'drain' });
  });
});
