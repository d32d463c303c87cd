import { describe, expect, it } from 'vitest';
import { systemClock } from '../../runtime/runtime.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { IsolatePool } from './isolate-pool.ts';
import type { Isolate, IsolateMode, StopSignals } from './isolate.ts';

interface FakeIsolate extends Isolate {
  readonly number: number;
  end(): void;
}

function setup(limit: number, tasks: readonly string[] = ['a'], loaded = Promise.resolve()) {
  const isolates: FakeIsolate[] = [];
  const open = async (mode: IsolateMode): Promise<Isolate> => {
    const number = isolates.length;
    let end = (): void => undefined;
    let isOpen = true;
    const ended = new Promise<Error>(resolve => {
      end = () => {
        isOpen = false;
        resolve(new Error('gone'));
      };
    });
    const isolate: FakeIsolate = {
      number,
      mode,
      tasks: new Set(tasks),
      rssBytes: 0,
      get isOpen() {
        return isOpen;
      },
      ended,
      post: () => undefined,
      listen: () => undefined,
      kill: async () => {
        end();
        await ended;
      },
      end: () => end(),
    };
    isolates.push(isolate);
    await loaded;
    return isolate;
  };
  const worn = new Set<Isolate>();
  const pool = new IsolatePool({
    runtime: { log: silentLogger, clock: systemClock },
    limit,
    open,
    isWornOut: isolate => worn.has(isolate),
  });
  const enter = async (
    mode: IsolateMode = 'thread',
    stop = neverStopped(),
  ): Promise<FakeIsolate> => {
    const isolate = await pool.enter(mode, stop);
    if (isolate === null) throw new Error('no isolate');
    return isolate as FakeIsolate;
  };
  return { pool, isolates, worn, enter };
}

const neverStopped = (): StopSignals => ({
  signal: new AbortController().signal,
  draining: new AbortController().signal,
});

describe('a pool of isolates', () => {
  it('reuses a free isolate of the same mode only', async () => {
    const { pool, enter } = setup(3);
    const first = await enter();
    pool.leave(first);
    expect((await enter('process')).number).toBe(1);
    expect((await enter()).number).toBe(first.number);
    expect((await enter()).number).toBe(2);
  });

  it('gives out no more isolates than its limit, in the order of the requests', async () => {
    const { pool, isolates, enter } = setup(1);
    const first = await enter();
    const seen: string[] = [];
    const second = enter().then(isolate => (seen.push('second'), isolate));
    const third = enter().then(isolate => (seen.push('third'), isolate));
    await Promise.resolve();
    expect(seen).toEqual([]);
    pool.leave(first);
    pool.leave(await second);
    await third;
    expect(seen).toEqual(['second', 'third']);
    expect(isolates).toHaveLength(1);
  });

  it.each(['signal', 'draining'] as const)(
    'ends the wait of a run when its %s fires',
    async name => {
      const { pool, enter } = setup(1);
      const first = await enter();
      const controller = new AbortController();
      const waiting = pool.enter('thread', { ...neverStopped(), [name]: controller.signal });
      controller.abort();
      expect(await waiting).toBeNull();
      // The next run gets the isolate that it did not take.
      const next = enter();
      pool.leave(first);
      expect((await next).number).toBe(first.number);
    },
  );

  it.each(['signal', 'draining'] as const)(
    'ends the wait of a run for an isolate that is still loading when its %s fires',
    async name => {
      let load: () => void = () => undefined;
      const loaded = new Promise<void>(resolve => (load = resolve));
      const { pool, isolates, enter } = setup(1, ['a'], loaded);
      const controller = new AbortController();
      const waiting = pool.enter('thread', { ...neverStopped(), [name]: controller.signal });
      await Promise.resolve();
      controller.abort();
      expect(await waiting).toBeNull();
      // The slot is free when it has loaded, and the next run gets it.
      const next = enter();
      load();
      expect((await next).number).toBe(0);
      expect(isolates).toHaveLength(1);
    },
  );

  it('does not reuse an isolate that has ended or has reached its limits', async () => {
    const { pool, worn, isolates, enter } = setup(1);
    const first = await enter();
    first.end();
    pool.leave(first);
    const second = await enter();
    expect(second.number).toBe(1);
    worn.add(second);
    pool.leave(second);
    expect(isolates[1]?.isOpen).toBe(false);
    const third = await enter();
    pool.leave(third);
    third.end();
    await third.ended;
    expect((await enter()).number).toBe(3);
  });

  it('does not count an isolate that could not be opened', async () => {
    let tries = 0;
    const pool = new IsolatePool({
      runtime: { log: silentLogger, clock: systemClock },
      limit: 1,
      open: () => {
        tries += 1;
        return Promise.reject(new Error('no'));
      },
      isWornOut: () => false,
    });
    for (const _ of [1, 2])
      await expect(pool.enter('thread', neverStopped())).rejects.toThrow('no');
    expect(tries).toBe(2);
  });

  it('refuses to start when an isolate does not find the handlers', async () => {
    const { pool, isolates } = setup(1, ['a']);
    await pool.prepare('thread', ['a']);
    await expect(pool.prepare('process', ['a', 'b'])).rejects.toMatchObject({
      code: 'ERR_HANDLER_NOT_LOADABLE',
      message: expect.stringContaining("the handler of b has mode 'process'") as string,
    });
    expect(isolates.map(isolate => isolate.isOpen)).toEqual([true, false]);
    await pool.close();
    expect(isolates.map(isolate => isolate.isOpen)).toEqual([false, false]);
  });
});
