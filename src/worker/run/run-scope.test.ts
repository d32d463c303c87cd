import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../testing/virtual-time.ts';
import type { BegunTask, RaiseReply, StepStatus } from '../../ledger/ledger.ts';
import { noFaults } from '../../runtime/runtime.ts';
import { task } from '../../task/define-task.ts';
import { digestOf } from '../../task/digest.ts';
import type { EnvelopeOptions } from '../../task/envelope.ts';
import { toBytes } from '../../task/json.ts';
import { Events } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { unchecked } from '../../task/standard-schema.ts';
import type { TaskContext } from '../context.ts';
import { execute } from './execute.ts';
import { defineHandler } from '../handler.ts';
import { RunStop } from './settlement.ts';

const contract = task('scope.task', {
  input: unchecked<unknown>(),
  result: unchecked<unknown>(),
});
const other = task('scope.other');

type Run = (ctx: TaskContext) => unknown;

/** One run of one handler, with a store and an effect-once door that accept every call. */
function setup(run: Run, options: EnvelopeOptions = {}, text = '[[],{},null]') {
  const time = new VirtualTime();
  const { clock } = time;
  const random = { next: () => 0.5, token: () => 't' };
  const warnings: string[] = [];
  const log = {
    ...silentLogger,
    warn: (_: object, message: string) => void warnings.push(message),
    child: () => log,
  };
  const events = new Events(() => undefined);
  const emit = events.emit;
  const runtime = { clock, random, faultPoint: noFaults, log, emit };
  const committed: string[] = [];
  const deadlines: unknown[] = [];
  const kept: number[] = [];
  const door = {
    locksTask: true,
    pass: async (
      _run: unknown,
      step: string,
      fn: (tx: unknown) => Promise<Uint8Array | null>,
    ): Promise<Uint8Array | null> => {
      await new Promise<void>(resolve => void time.after(10, resolve));
      const value = await fn('tx');
      committed.push(step);
      return value;
    },
    fence: (): Promise<void> => Promise.resolve(),
  };
  const handler = defineHandler(
    contract,
    { retry: { maxAttempts: 1 }, run: (_, ctx) => run(ctx as unknown as TaskContext) },
    {
      door: () => door,
      sendInside: (_tx, _task, _input, { deadline }) => {
        deadlines.push(deadline);
        return Promise.resolve('sent');
      },
    },
  );
  const body = toBytes(text);
  const identity = { id: 'one', name: contract.name, version: 1, body };
  const begun: BegunTask = {
    id: 'one',
    epoch: 1,
    run: 'r',
    envelope: {
      ...identity,
      queue: 'default',
      priority: 0,
      options: toBytes(JSON.stringify(options)),
      digest: digestOf(identity),
      etaMs: null,
      expiresMs: null,
    },
    failures: 0,
    crashes: 0,
    isSuspect: false,
    checkpoint: null,
    checkpointSeq: 0,
  };
  const ledger = {
    checkpoint: (_run: unknown, seq: number): Promise<StepStatus> => {
      kept.push(seq);
      return Promise.resolve('ok');
    },
    raiseEpoch: (): Promise<RaiseReply> => Promise.resolve({ status: 'ok', epoch: 1 }),
  };
  const stop = new RunStop(new AbortController().signal);
  const settlement = Promise.resolve().then(() =>
    execute(
      { task: begun, stop, ledger, effect: null },
      { runtime, handlers: new Map([[contract.name, handler]]) },
    ),
  );
  return { time, settlement, committed, kept, warnings, stop, deadlines, events };
}

it('a run is told of its soft timeout once, and goes on', async () => {
  const { time, settlement, events } = setup(
    () => new Promise<string>(resolve => void time.after(5_000, () => resolve('late'))),
    { softTimeoutMs: 1_000 },
  );
  const told: unknown[] = [];
  events.on('task:soft-timeout', event => void told.push(event));
  await time.runUntil(10_000);
  expect(await settlement).toMatchObject({ kind: 'commit' });
  expect(told).toEqual([
    { id: 'one', name: 'scope.task', queue: 'default', attempt: 1, softTimeoutMs: 1_000 },
  ]);
});

describe('a handler that ignores its signal', () => {
  it('is a failed attempt at its timeout, and cannot write after that', async () => {
    const refused: unknown[] = [];
    const { time, settlement, committed, kept, warnings } = setup(
      async ctx => {
        await new Promise<void>(resolve => void time.after(5_000, resolve));
        const writes = [
          () => ctx.checkpoint(1),
          () => ctx.transaction(() => Promise.resolve('late')),
          () => ctx.send(other),
        ];
        for (const write of writes) refused.push(await write().catch((error: unknown) => error));
      },
      { timeoutMs: 1_000 },
    );
    await time.runUntil(2_000);
    expect(await settlement).toMatchObject({ kind: 'fail', reason: 'ERR_TIMEOUT', delayMs: null });
    expect(warnings).toEqual(['the handler goes on though its run is over; it can write no more']);
    await time.runUntil(10_000);
    expect(refused).toMatchObject([
      { code: 'ERR_TIMEOUT' },
      { code: 'ERR_TIMEOUT' },
      { code: 'ERR_TIMEOUT' },
    ]);
    expect([committed, kept]).toEqual([[], []]);
  });

  it('has its transaction rolled back when that ends after the run', async () => {
    const steps: string[] = [];
    const { time, settlement, committed } = setup(
      async ctx => {
        await ctx.transaction(async () => {
          steps.push('effect');
          await new Promise<void>(resolve => void time.after(3_000, resolve));
        });
      },
      { timeoutMs: 1_000 },
    );
    await time.runUntil(10_000);
    expect(await settlement).toMatchObject({ kind: 'fail', reason: 'ERR_TIMEOUT' });
    expect(steps).toEqual(['effect']);
    expect(committed).toEqual([]);
  });

  it('has no effect when the fence is checked after the end of the run', async () => {
    const steps: string[] = [];
    const { time, settlement, committed, stop } = setup(async ctx => {
      await ctx.transaction(() => Promise.resolve(steps.push('effect')));
    });
    await time.runUntil(5);
    stop.stop('lost');
    await time.runUntil(1_000);
    expect(await settlement).toEqual({ kind: 'drop' });
    expect([steps, committed]).toEqual([[], []]);
  });
});

describe('code that a handler leaves running when it returns', () => {
  it('cannot write', async () => {
    let late: Promise<unknown> = Promise.resolve();
    const { time, settlement, kept, committed, warnings } = setup(ctx => {
      late = new Promise<void>(resolve => void time.after(100, resolve)).then(async () => [
        await ctx.checkpoint(1).catch((error: unknown) => error),
        await ctx.transaction(() => Promise.resolve(1)).catch((error: unknown) => error),
      ]);
      return 'done';
    });
    await time.runUntil(50);
    expect(await settlement).toMatchObject({ kind: 'commit' });
    await time.runUntil(1_000);
    expect(await late).toMatchObject([{ code: 'ERR_FENCE_STALE' }, { code: 'ERR_FENCE_STALE' }]);
    expect([kept, committed, warnings]).toEqual([[], [], []]);
  });
});

describe('calls of one run that use its fence', () => {
  it('run one after the other, so that none waits in the database for a lock of another', async () => {
    let isOpen = false;
    const order: string[] = [];
    const { time, settlement, committed, kept } = setup(async ctx => {
      const long = (step: string) =>
        ctx.transaction(
          async () => {
            order.push(isOpen ? `${step} beside another` : step);
            isOpen = true;
            await new Promise<void>(resolve => void time.after(60_000, resolve));
            isOpen = false;
            order.push(`${step} ended, ${kept.length} checkpoints`);
          },
          { step },
        );
      await Promise.all([long('a'), ctx.send(other), ctx.checkpoint(1), long('b')]);
      return null;
    });
    await time.runUntil(200_000);
    expect(await settlement).toMatchObject({ kind: 'commit' });
    expect(order).toEqual(['a', 'a ended, 0 checkpoints', 'b', 'b ended, 1 checkpoints']);
    expect([committed.length, kept]).toEqual([3, [1]]);
  });

  it('fail with a clear error when one waits for itself', async () => {
    const { time, settlement } = setup(async ctx => {
      let late: Promise<unknown> = Promise.resolve();
      const step = ctx.transaction(() => late.then(() => undefined));
      late = ctx.send(other);
      await step;
    });
    await time.runUntil(200_000);
    expect(await settlement).toMatchObject({
      kind: 'fail',
      error: {
        message: expect.stringContaining('the ctx.transaction of the step main') as string,
      },
    });
  });

  it('stop waiting when the run is over', async () => {
    const refused: unknown[] = [];
    const { time, settlement, committed } = setup(
      async ctx => {
        void ctx.transaction(() => new Promise<void>(() => undefined)).catch(() => undefined);
        await ctx.send(other).catch((error: unknown) => void refused.push(error));
      },
      { timeoutMs: 1_000 },
    );
    await time.runUntil(2_000);
    expect(await settlement).toMatchObject({ kind: 'fail', reason: 'ERR_TIMEOUT' });
    expect(refused).toMatchObject([{ code: 'ERR_TIMEOUT' }]);
    expect(committed).toEqual([]);
  });
});

describe('a handler that obeys its signal', () => {
  it('causes no warning', async () => {
    const { time, settlement, warnings } = setup(
      ctx =>
        new Promise((_, reject) =>
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason as Error)),
        ).finally(() => undefined),
      { timeoutMs: 1_000 },
    );
    await time.runUntil(2_000);
    expect(await settlement).toMatchObject({ kind: 'fail', reason: 'ERR_TIMEOUT' });
    expect(warnings).toEqual([]);
  });
});

describe('a timeout', () => {
  it('is only that of Outlast; a TimeoutError thrown by the handler is an ordinary failure', async () => {
    const timeout = new DOMException('the other side was slow', 'TimeoutError');
    const { settlement } = setup(() => Promise.reject(timeout), { timeoutMs: 1_000 });
    expect(await settlement).toMatchObject({
      kind: 'fail',
      reason: 'ERR_ATTEMPTS_SPENT',
      error: { type: 'TimeoutError', message: 'the other side was slow' },
    });
  });

  it('keeps a result that was returned in the same tick', async () => {
    let finish: (value: string) => void = () => undefined;
    const finished = new Promise<string>(resolve => (finish = resolve));
    const { time, settlement } = setup(() => finished, { timeoutMs: 1_000 });
    void time.after(1_000, () => finish('in time'));
    await time.runUntil(5_000);
    expect(await settlement).toMatchObject({ kind: 'commit', value: '"in time"' });
  });
});

describe('arguments', () => {
  it('reach the handler unchanged: none is read as a lease, a fence or a checkpoint', async () => {
    const text =
      '{"10":"ten","2":"two","epoch":99,"fence":99,"_lease_key":"x","checkpoint":{"at":7}}';
    const { settlement } = setup(
      ctx => ({ input: ctx.input, fence: ctx.fence, from: ctx.lastCheckpoint ?? null }),
      {},
      `[[],${text},null]`,
    );
    const ended = await settlement;
    if (ended.kind !== 'commit') throw new Error(ended.kind);
    const input = JSON.parse(text) as unknown;
    expect(JSON.parse(ended.value)).toEqual({ input, fence: 1, from: null });
  });
});

describe('a task that a handler sends', () => {
  it('has the deadline of the sending task, or an earlier one, never a later one', async () => {
    const { time, settlement, deadlines } = setup(
      async ctx => {
        await ctx.send(other);
        await ctx.send(other, undefined, { deadline: '1s' });
        await ctx.send(other, undefined, { deadline: new Date(2_000) });
        await ctx.send(other, undefined, { deadline: '1h' });
        return await ctx.send(other, undefined, { deadline: new Date(Number.NaN) });
      },
      { deadlineMs: 5_000 },
    );
    await time.runUntil(1_000);
    expect(await settlement).toMatchObject({ kind: 'commit' });
    const inherited = new Date(5_000);
    const refused = new Date(Number.NaN);
    expect(deadlines).toEqual([inherited, '1s', new Date(2_000), inherited, refused]);
  });

  it('inherits no deadline when the sending task has none', async () => {
    const { time, settlement, deadlines } = setup(ctx =>
      ctx.send(other, undefined, { deadline: '1h' }),
    );
    await time.runUntil(1_000);
    await settlement;
    expect(deadlines).toEqual(['1h']);
  });
});
