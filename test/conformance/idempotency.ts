import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  AcquireRequest,
  IdempotencyStore,
  KeyOwner,
  KeyRun,
} from '../../src/idempotency/idempotency-store.ts';
import { MOST_WAITERS } from '../../src/idempotency/idempotency-store.ts';
import { AWKWARD_BYTES, bytesOf, HOUR, MINUTE, unique } from './envelopes.ts';

export interface IdempotencyFixture {
  readonly store: IdempotencyStore;
  /** Moves the store's clock. */
  advance(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

/** Everything an idempotency store must do. */
export function describeIdempotency(
  name: string,
  makeFixture: () => Promise<IdempotencyFixture>,
): void {
  describe(`idempotency keys: ${name}`, () => {
    let fixture: IdempotencyFixture;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(() => fixture.dispose());
    const store = (): IdempotencyStore => fixture.store;
    const advance = (ms: number): Promise<void> => fixture.advance(ms);

    describe('a key', () => holding(store, advance));
    describe('the origin of a key', () => origins(store, advance));
    describe('a result', () => results(store, advance));
    describe('a key held by another task', () => meeting(store, advance));
    describe('a lease', () => leases(store, advance));
    describe('a review', () => reviews(store, advance));
  });
}

const owner = (): KeyRun => ({ taskId: unique('task'), epoch: 1, run: unique('run') });
const ownerOf = ({ taskId, epoch }: KeyRun): KeyOwner => ({ taskId, epoch });
const asking = (key: string, by: KeyRun, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
  key,
  digest: 'd1',
  ...by,
  ...more,
});

type Store = () => IdempotencyStore;
type Advance = (ms: number) => Promise<void>;

function holding(store: Store, advance: Advance): void {
  it('belongs to the first run that asks, and a repeat after a lost reply gets the same answer', async () => {
    const [key, one] = [unique('key'), owner()];
    expect(await store().acquire(asking(key, one))).toMatchObject({ status: 'owned' });
    expect(await store().acquire(asking(key, one))).toMatchObject({ status: 'owned' });
    expect(await store().read(key)).toMatchObject({ key, state: 'held', ...one, leftMs: null });
  });

  it('is acquired by exactly one of many concurrent requests', async () => {
    const key = unique('key');
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => store().acquire(asking(key, owner()))),
    );
    const statuses = replies.map(({ status }) => status);
    expect(statuses.filter(status => status === 'owned')).toHaveLength(1);
    expect(statuses.filter(status => status === 'held')).toHaveLength(19);
  });

  it('does not expire: it is held until it is freed', async () => {
    const [key, one] = [unique('key'), owner()];
    await store().acquire(asking(key, one));
    await advance(1_000 * HOUR);
    expect(await store().acquire(asking(key, owner()))).toMatchObject({ status: 'held' });
  });

  it('moves to a later epoch of its task, and never back', async () => {
    const [key, one] = [unique('key'), owner()];
    const later = { ...one, epoch: 5 };
    await store().acquire(asking(key, one));
    expect(await store().acquire(asking(key, later))).toMatchObject({ status: 'owned' });
    const stale = { status: 'stale', epoch: 5 };
    expect(await store().acquire(asking(key, one))).toEqual(stale);
    expect(await store().acquire(asking(key, { ...one, epoch: 4 }))).toEqual(stale);
    expect(await store().complete({ key, ...one, result: null, ttlMs: HOUR })).toEqual({
      status: 'stale',
      waiters: [],
    });
    expect(await store().free({ key, ...one })).toEqual({ status: 'stale', waiters: [] });
    expect(await store().read(key)).toMatchObject({ state: 'held', ...later });
  });

  it('belongs to the first of two runs under one epoch; the other gets it only under a later epoch', async () => {
    const [key, one] = [unique('key'), owner()];
    const other = { ...one, run: unique('run') };
    await store().acquire(asking(key, one));
    expect(await store().acquire(asking(key, other))).toEqual({ status: 'stale', epoch: 1 });
    const stale = { status: 'stale', waiters: [] };
    expect(await store().complete({ key, ...other, result: null, ttlMs: HOUR })).toEqual(stale);
    expect(await store().free({ key, ...other })).toEqual(stale);
    expect(await store().read(key)).toMatchObject({ state: 'held', ...one });
    const raised = { ...other, epoch: 2 };
    expect(await store().acquire(asking(key, raised))).toMatchObject({ status: 'owned' });
    expect(await store().complete({ key, ...one, result: null, ttlMs: HOUR })).toEqual(stale);
    const done = { key, ...raised, result: null, ttlMs: HOUR };
    expect(await store().complete(done)).toMatchObject({ status: 'ok' });
    expect(await store().complete({ ...done, run: one.run })).toEqual(stale);
    expect(await store().read(key)).toMatchObject({ state: 'done', ...raised });
  });

  it('accepts another input from the task that holds it', async () => {
    const [key, one] = [unique('key'), owner()];
    await store().acquire(asking(key, one));
    const again = asking(key, { ...one, epoch: 2 }, { digest: 'd2' });
    expect(await store().acquire(again)).toMatchObject({ status: 'owned' });
  });

  it('is free again when its holder frees it, and forgets its waiters and digest', async () => {
    const [key, one, two] = [unique('key'), owner(), owner()];
    await store().acquire(asking(key, one));
    await store().acquire(asking(key, two));
    expect(await store().free({ key, ...one })).toEqual({ status: 'ok', waiters: [two.taskId] });
    expect(await store().free({ key, ...one })).toEqual({ status: 'stale', waiters: [] });
    expect(await store().read(key)).toBeNull();
    expect(await store().acquire(asking(key, two, { digest: 'd2' }))).toMatchObject({
      status: 'owned',
    });
    expect(await store().read(key)).toMatchObject({ waiters: [], digest: 'd2' });
  });

  it('may be any text', async () => {
    const key = `${unique('key')}#{a}:'"%_\\ \u{1F4A1}\uFFFD`;
    const other = `${key}}`;
    await store().acquire(asking(key, owner()));
    expect(await store().acquire(asking(other, owner()))).toMatchObject({ status: 'owned' });
    expect(await store().read(key)).toMatchObject({ key, state: 'held' });
  });
}

function origins(store: Store, advance: Advance): void {
  const lasting = { ttlMs: HOUR };
  const taken = async (more: Partial<AcquireRequest> = lasting) => {
    const [key, one] = [unique('key'), owner()];
    const reply = await store().acquire(asking(key, one, more));
    expect(reply).toEqual({ status: 'owned', origin: one.taskId });
    return { key, one };
  };

  it('is the task that acquired the key first, also after other tasks took it over', async () => {
    const { key, one } = await taken();
    const [two, three] = [owner(), owner()];
    const later = asking(key, { ...one, epoch: 2 }, lasting);
    expect(await store().acquire(later)).toEqual({ status: 'owned', origin: one.taskId });
    const instead = asking(key, two, { insteadOf: { ...one, epoch: 2 }, ...lasting });
    expect(await store().acquire(instead)).toEqual({ status: 'owned', origin: one.taskId });
    const again = asking(key, three, { insteadOf: two, digest: 'd2', ...lasting });
    expect(await store().acquire(again)).toEqual({ status: 'owned', origin: one.taskId });
    expect(await store().read(key)).toMatchObject({ ...three, origin: one.taskId });
  });

  it('is kept for its time after the key is freed, and any task may acquire the key', async () => {
    const { key, one } = await taken();
    const [two, three] = [owner(), owner()];
    await store().acquire(asking(key, two));
    expect(await store().free({ key, ...one })).toEqual({ status: 'ok', waiters: [two.taskId] });
    expect(await store().read(key)).toMatchObject({ state: 'free', origin: one.taskId });
    expect(await store().complete({ key, ...one, result: null, ttlMs: HOUR })).toMatchObject({
      status: 'stale',
    });
    expect(await store().free({ key, ...one })).toMatchObject({ status: 'stale' });
    await advance(59 * MINUTE);
    const other = asking(key, two, { digest: 'd2', ...lasting });
    expect(await store().acquire(other)).toEqual({ status: 'owned', origin: one.taskId });
    expect(await store().read(key)).toMatchObject({ state: 'held', leftMs: null, waiters: [] });
    await store().free({ key, ...two });
    await advance(61 * MINUTE);
    expect(await store().read(key)).toBeNull();
    const late = asking(key, three, lasting);
    expect(await store().acquire(late)).toEqual({ status: 'owned', origin: three.taskId });
  });

  it('is forgotten when the result of the key expires', async () => {
    const { key, one } = await taken();
    await store().complete({ key, ...one, result: null, ttlMs: MINUTE });
    await advance(2 * MINUTE);
    const two = owner();
    const late = asking(key, two, lasting);
    expect(await store().acquire(late)).toEqual({ status: 'owned', origin: two.taskId });
  });

  it('is forgotten on request', async () => {
    const { key, one } = await taken();
    await store().free({ key, ...one });
    expect(await store().free({ key, ...one, evenDone: true })).toMatchObject({ status: 'ok' });
    expect(await store().read(key)).toBeNull();
  });
}

function results(store: Store, advance: Advance): void {
  const done = async (result: Uint8Array | null, ttlMs = HOUR) => {
    const [key, one] = [unique('key'), owner()];
    await store().acquire(asking(key, one));
    const reply = await store().complete({ key, ...one, result, ttlMs });
    return { key, one, reply };
  };

  it('is returned byte for byte to every task that asks, including its holder', async () => {
    const { key, one, reply } = await done(AWKWARD_BYTES);
    expect(reply).toEqual({ status: 'ok', waiters: [] });
    for (const by of [owner(), one, { ...one, epoch: 9 }]) {
      const found = await store().acquire(asking(key, by));
      expect(found).toMatchObject({ status: 'done', by: one.taskId });
      expect(bytesOf('result' in found ? found.result : null)).toEqual(bytesOf(AWKWARD_BYTES));
    }
  });

  it('may be empty', async () => {
    const { key, one } = await done(null);
    const found = await store().acquire(asking(key, owner()));
    expect(found).toEqual({ status: 'done', by: one.taskId, result: null });
  });

  it('keeps its bytes and its expiry when complete is repeated', async () => {
    const { key, one } = await done(Uint8Array.from([49]), 10 * MINUTE);
    await advance(6 * MINUTE);
    const again = { key, ...one, result: Uint8Array.from([50]), ttlMs: 10 * MINUTE };
    expect(await store().complete(again)).toMatchObject({ status: 'ok' });
    expect(bytesOf((await store().read(key))?.result)).toEqual([49]);
    await advance(6 * MINUTE);
    expect(await store().acquire(asking(key, owner()))).toMatchObject({ status: 'owned' });
  });

  it('cannot be written or freed by a run that does not hold the key', async () => {
    const { key, one } = await done(Uint8Array.from([49]));
    const foreign = { key, ...owner(), result: Uint8Array.from([50]), ttlMs: HOUR };
    expect(await store().complete(foreign)).toMatchObject({ status: 'stale' });
    const later = { ...foreign, taskId: one.taskId, epoch: 2 };
    expect(await store().complete(later)).toMatchObject({ status: 'stale' });
    expect(await store().free({ key, ...one })).toMatchObject({ status: 'stale' });
    expect(bytesOf((await store().read(key))?.result)).toEqual([49]);
  });

  it('is not stored for a key without a holder', async () => {
    const key = unique('key');
    const unheld = { key, ...owner(), result: null, ttlMs: HOUR };
    expect(await store().complete(unheld)).toEqual({ status: 'stale', waiters: [] });
    expect(await store().read(key)).toBeNull();
  });

  it('expires after its time, counted from completion', async () => {
    const [key, one] = [unique('key'), owner()];
    await store().acquire(asking(key, one));
    await advance(2 * HOUR);
    await store().complete({ key, ...one, result: null, ttlMs: HOUR });
    await advance(59 * MINUTE);
    expect(await store().acquire(asking(key, owner()))).toMatchObject({ status: 'done' });
    const { leftMs } = (await store().read(key)) ?? {};
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(MINUTE);
    await advance(2 * MINUTE);
    expect(await store().read(key)).toBeNull();
    await store().prune(1_000);
    expect(await store().acquire(asking(key, owner(), { digest: 'd2' }))).toMatchObject({
      status: 'owned',
    });
  });

  it('is forgotten on request', async () => {
    const { key, one } = await done(null);
    expect(await store().free({ key, ...one, evenDone: true })).toMatchObject({ status: 'ok' });
    expect(await store().read(key)).toBeNull();
  });
}

function meeting(store: Store, advance: Advance): void {
  const held = async () => {
    const [key, one] = [unique('key'), { ...owner(), epoch: 3 }];
    await store().acquire(asking(key, one));
    return { key, one };
  };

  it('is reported with its holder and the number of requests by the asking task', async () => {
    const { key, one } = await held();
    await advance(MINUTE);
    const two = owner();
    const first = await store().acquire(asking(key, two));
    expect(first).toMatchObject({ status: 'held', holder: ownerOf(one), asked: 1 });
    expect('holder' in first ? first.holder?.heldMs : 0).toBeGreaterThanOrEqual(MINUTE);
    expect(await store().acquire(asking(key, { ...two, epoch: 2 }))).toMatchObject({ asked: 2 });
    expect(await store().acquire(asking(key, owner()))).toMatchObject({ asked: 1 });
  });

  it('returns its waiters when it is completed, also when complete is repeated', async () => {
    const { key, one } = await held();
    const [two, three] = [owner(), owner()];
    await store().acquire(asking(key, two));
    await store().acquire(asking(key, three));
    const ending = { key, ...one, result: null, ttlMs: HOUR };
    const expected = [two.taskId, three.taskId].sort();
    for (const reply of [await store().complete(ending), await store().complete(ending)])
      expect([...reply.waiters].sort()).toEqual(expected);
  });

  it('is a mismatch for another input, held or done, and adds no waiter', async () => {
    const { key, one } = await held();
    const other = asking(key, owner(), { digest: 'd2' });
    expect(await store().acquire(other)).toMatchObject({
      status: 'mismatch',
      holder: ownerOf(one),
    });
    expect(await store().complete({ key, ...one, result: AWKWARD_BYTES, ttlMs: HOUR })).toEqual({
      status: 'ok',
      waiters: [],
    });
    expect(await store().acquire(other)).toEqual({ status: 'mismatch', holder: null });
  });

  it('is taken over only from the named holder, by one of the tasks that try', async () => {
    const { key, one } = await held();
    const takers = [owner(), owner(), owner()];
    const waiting = owner();
    await store().acquire(asking(key, waiting));
    const replies = await Promise.all(
      takers.map(by => store().acquire(asking(key, by, { insteadOf: one, digest: 'd2' }))),
    );
    const winners = takers.filter((_, index) => replies[index]?.status === 'owned');
    expect(winners).toHaveLength(1);
    const [winner = one] = winners;
    // The reply was lost.
    const again = asking(key, winner, { insteadOf: one, digest: 'd2' });
    expect(await store().acquire(again)).toMatchObject({ status: 'owned' });
    expect(await store().read(key)).toMatchObject({ ...winner, digest: 'd2' });
    expect((await store().read(key))?.waiters).toContain(waiting.taskId);
    // The previous holder can do nothing more.
    const late = { key, ...one, result: null, ttlMs: HOUR };
    expect(await store().complete(late)).toMatchObject({ status: 'stale' });
  });

  it('is not taken over from a later run of its holder, or once it has a result', async () => {
    const { key, one } = await held();
    const later = { ...one, epoch: 4 };
    await store().acquire(asking(key, later));
    const taking = asking(key, owner(), { insteadOf: one });
    expect(await store().acquire(taking)).toMatchObject({ status: 'held', holder: ownerOf(later) });
    await store().complete({ key, ...later, result: null, ttlMs: HOUR });
    const late = asking(key, owner(), { insteadOf: later });
    expect(await store().acquire(late)).toMatchObject({ status: 'done', by: one.taskId });
  });

  it('remembers a bounded number of waiters', async () => {
    const { key, one } = await held();
    const many = Array.from({ length: MOST_WAITERS + 5 }, () => owner());
    const replies = [];
    for (let at = 0; at < many.length; at += 50) {
      const some = many.slice(at, at + 50);
      replies.push(...(await Promise.all(some.map(by => store().acquire(asking(key, by))))));
    }
    expect(replies.every(({ status }) => status === 'held')).toBe(true);
    const { waiters } = await store().free({ key, ...one });
    expect(waiters).toHaveLength(MOST_WAITERS);
  });
}

function leases(store: Store, advance: Advance): void {
  const leased = async (leaseMs = MINUTE) => {
    const [key, one] = [unique('key'), owner()];
    await store().acquire(asking(key, one, { leaseMs }));
    return { key, one };
  };

  it('keeps other tasks out until it expires', async () => {
    const { key, one } = await leased();
    const asked = asking(key, owner(), { leaseMs: MINUTE });
    expect(await store().acquire(asked)).toMatchObject({ status: 'held', holder: ownerOf(one) });
    expect((await store().read(key))?.waiters).toEqual([]);
    await advance(2 * MINUTE);
    expect(await store().acquire(asked)).toMatchObject({ status: 'owned' });
  });

  it('is extended by a renewal in time, and not after it expired or by another owner', async () => {
    const { key, one } = await leased();
    await advance(40_000);
    expect(await store().renew({ key, ...one, leaseMs: MINUTE })).toBe(true);
    expect(await store().renew({ key, ...owner(), leaseMs: MINUTE })).toBe(false);
    await advance(40_000);
    expect(await store().read(key)).toMatchObject({ state: 'held', ...one });
    await advance(MINUTE);
    expect(await store().renew({ key, ...one, leaseMs: MINUTE })).toBe(false);
    const late = { key, ...one, result: null, ttlMs: HOUR };
    expect(await store().complete(late)).toMatchObject({ status: 'stale' });
    expect(await store().read(key)).toBeNull();
  });

  it('ends with the result, which has its own expiry', async () => {
    const { key, one } = await leased();
    await store().complete({ key, ...one, result: Uint8Array.from([49]), ttlMs: HOUR });
    await advance(30 * MINUTE);
    expect(await store().acquire(asking(key, owner(), { leaseMs: MINUTE }))).toMatchObject({
      status: 'done',
    });
    expect(await store().renew({ key, ...one, leaseMs: MINUTE })).toBe(false);
  });
}

function reviews(store: Store, advance: Advance): void {
  it('lists the keys that tasks have held for long, each once per interval', async () => {
    const [key, one] = [unique('key'), { ...owner(), epoch: 7 }];
    const [leasedKey, doneKey, doneBy] = [unique('key'), unique('key'), owner()];
    await store().acquire(asking(key, one));
    await store().acquire(asking(leasedKey, owner(), { leaseMs: 100 * HOUR }));
    await store().acquire(asking(doneKey, doneBy));
    await store().complete({ key: doneKey, ...doneBy, result: null, ttlMs: 100 * HOUR });
    const mine = async () => {
      const found = await store().review(HOUR, 100_000);
      return found.filter(held => [key, leasedKey, doneKey].includes(held.key));
    };
    expect(await mine()).toEqual([]);
    await advance(2 * HOUR);
    const [found, ...rest] = await mine();
    expect(found).toMatchObject({ key, ...one });
    expect(found?.heldMs).toBeGreaterThanOrEqual(2 * HOUR);
    expect(rest).toEqual([]);
    expect(await mine()).toEqual([]);
    await advance(2 * HOUR);
    expect(await mine()).toHaveLength(1);
    await store().free({ key, ...one });
    await advance(2 * HOUR);
    expect(await mine()).toEqual([]);
  });
}
