import { describe, expect, it } from 'vitest';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { outlastError } from '../errors/error.ts';
import { systemRandom } from '../runtime/runtime.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { runLocked, type LockRequest } from './idempotency-lock.ts';

const away = (): Promise<never> =>
  Promise.reject(outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} }));

/** `idempotencyLock` on a store that can be made unavailable, under a clock that the test moves. */
function setup() {
  const time = new VirtualTime();
  const { clock } = time;
  const memory = new MemoryIdempotencyStore(clock);
  let isAway = false;
  const store = new Proxy(memory, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return isAway ? away : (value as (...args: unknown[]) => unknown).bind(target);
    },
  });
  const runtime = { clock, random: systemRandom, log: silentLogger };
  const asked = <T>(fn: LockRequest<T>['fn'], more: Partial<LockRequest<T>> = {}) => {
    const request = { key: 'import-7', ttlMs: 60_000, waitMs: null, fn, ...more };
    const running = runLocked(request, { store, runtime });
    running.catch(() => undefined);
    return running;
  };
  const locked = <T>(fn: LockRequest<T>['fn'], more: Partial<LockRequest<T>> = {}): Promise<T> => {
    const value = asked(fn, more).then(answer => answer.value);
    value.catch(() => undefined);
    return value;
  };
  return { time, memory, asked, locked, cut: (value: boolean) => void (isAway = value) };
}

/** A function that ends when the test ends it. */
function slow<T>() {
  let end!: (value: T) => void;
  let fail!: (error: Error) => void;
  const running = new Promise<T>((resolve, reject) => {
    end = resolve;
    fail = reject;
  });
  let runs = 0;
  let signal: AbortSignal | undefined;
  const fn = (given: AbortSignal): Promise<T> => {
    runs += 1;
    signal = given;
    return running;
  };
  return { fn, end, fail, runs: () => runs, signal: () => signal };
}

describe('a function under an idempotency lock', () => {
  it('says whether it ran for this call', async () => {
    const { asked } = setup();
    expect(await asked(() => 1)).toEqual({ value: 1, ran: true });
    expect(await asked(() => 2)).toEqual({ value: 1, ran: false });
  });

  it('runs once, for as long as it takes; other callers wait and get its result', async () => {
    const { time, locked } = setup();
    const one = slow<{ rows: number }>();
    const first = locked(one.fn);
    await time.runUntil(10);
    const others = [locked(() => ({ rows: -1 })), locked(() => ({ rows: -2 }))];
    // Far beyond the lease, which is renewed.
    await time.runUntil(60_000);
    one.end({ rows: 3 });
    await time.runUntil(62_000);
    for (const answer of [first, ...others]) expect(await answer).toEqual({ rows: 3 });
    expect(await locked(() => ({ rows: -3 }))).toEqual({ rows: 3 });
    expect(one.runs()).toBe(1);
  });

  it('runs again when its result has expired', async () => {
    const { time, locked } = setup();
    expect(await locked(() => 1)).toBe(1);
    await time.runUntil(59_000);
    expect(await locked(() => 2)).toBe(1);
    await time.runUntil(61_000);
    expect(await locked(() => 3)).toBe(3);
  });

  it('returns undefined to every caller when it has no value', async () => {
    const { locked } = setup();
    expect(await locked(() => undefined)).toBeUndefined();
    expect(await locked(() => 1)).toBeUndefined();
  });

  it('frees its key when it throws, also when its result is not JSON', async () => {
    const { time, locked } = setup();
    const one = slow<number>();
    const first = locked(one.fn);
    await time.runUntil(10);
    const second = locked(() => 2);
    one.fail(new Error('no disk'));
    await time.runUntil(2_000);
    await expect(first).rejects.toThrow('no disk');
    expect(await second).toBe(2);
    const [key, waitMs] = ['other', 0];
    const bad = locked(() => new Date(), { key });
    await expect(bad).rejects.toMatchObject({ code: 'ERR_INPUT_NOT_JSON' });
    expect(await locked(() => 4 as unknown as Date, { key, waitMs })).toBe(4);
  });

  it('waits no longer than waitMs', async () => {
    const { time, locked } = setup();
    const one = slow<number>();
    const first = locked(one.fn);
    await time.runUntil(10);
    const second = locked(() => 2, { waitMs: 3_000 });
    await time.runUntil(4_000);
    await expect(second).rejects.toMatchObject({ code: 'ERR_RESULT_TIMEOUT', id: 'import-7' });
    one.end(1);
    expect(await first).toBe(1);
  });

  it('is aborted before its lease ends when the store does not answer, and another call takes the key', async () => {
    const { time, locked, cut } = setup();
    const one = slow<number>();
    const first = locked(one.fn);
    await time.runUntil(2_500);
    cut(true);
    // The last answered beat was sent at 2 s: the signal fires within its lease, with a margin to spare.
    await time.runUntil(6_999);
    expect(one.signal()?.aborted).toBe(true);
    cut(false);
    await time.runUntil(7_500);
    expect(await locked(() => 2)).toBe(2);
    one.end(1);
    await expect(first).rejects.toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(await locked(() => 3)).toBe(2);
  });

  it('is aborted when its key was taken away', async () => {
    const { time, memory, locked } = setup();
    const one = slow<number>();
    const first = locked(one.fn);
    await time.runUntil(10);
    const held = await memory.read('#import-7');
    const { taskId = '', run = '' } = held ?? {};
    await memory.free({ key: '#import-7', taskId, epoch: 1, run });
    await time.runUntil(1_500);
    expect(one.signal()?.aborted).toBe(true);
    one.end(1);
    await expect(first).rejects.toMatchObject({ code: 'ERR_LEASE_LOST' });
  });

  it('keeps its result when the store comes back before the lease ends', async () => {
    const { time, locked, cut } = setup();
    const one = slow<number>();
    const first = locked(one.fn);
    await time.runUntil(2_500);
    cut(true);
    one.end(1);
    await time.runUntil(3_500);
    cut(false);
    await time.runUntil(4_000);
    expect(await first).toBe(1);
    expect(await locked(() => 2)).toBe(1);
  });
});
