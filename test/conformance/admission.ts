import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AdmissionStore, ReservationHolder } from '../../src/admission/admission-store.ts';
import { intervalUs, type Rate } from '../../src/task/admission-rule.ts';
import { HOUR, MINUTE, unique } from './envelopes.ts';
import { LedgerDriver, type LedgerFixture } from './ledger-driver.ts';

export interface AdmissionFixture extends Omit<LedgerFixture, 'advance' | 'dispose'> {
  readonly store: AdmissionStore;
  /** Lets the store's time pass for admission. */
  readonly advance: (ms: number) => Promise<void>;
  readonly dispose: () => Promise<void>;
}

const RATE: Rate = { limit: 10, perMs: MINUTE, burst: 4 };
const holder = (): ReservationHolder => ({ task: unique('task'), run: unique('run') });

/** Everything an adapter of admission must do. */
export function describeAdmission(
  name: string,
  make: () => Promise<AdmissionFixture>,
  numRuns = 8,
): void {
  describe(`admission store: ${name}`, () => {
    let fixture: AdmissionFixture;
    beforeAll(async () => {
      fixture = await make();
    });
    afterAll(async () => {
      await fixture.dispose();
    });
    const current = (): AdmissionFixture => fixture;
    describe('a rate', () => rates(current));
    describe('over any window', () => windows(current, numRuns));
    describe('a permit', () => permits(current));
    describe('reservations', () => reservations(current));
    describe('reservations of ended runs', () => sweeping(current));
    describe('figures', () => figures(current));
  });
}

type Current = () => AdmissionFixture;

async function takeOne(
  store: AdmissionStore,
  key: string,
  rate: Rate,
  count = 1,
): Promise<{ readonly granted: number; readonly retryAfterMs: number; readonly mark: number }> {
  const [grant] = await store.take([{ key, rate, count }]);
  if (grant === undefined) throw new Error('no answer');
  return grant;
}

function rates(current: Current): void {
  it('grants a burst at once, then returns the time until the next grant', async () => {
    const { store } = current();
    const key = unique('key');
    expect(await takeOne(store, key, RATE, 6)).toMatchObject({ granted: 4 });
    const { granted, retryAfterMs } = await takeOne(store, key, RATE);
    expect(granted).toBe(0);
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(Math.ceil(intervalUs(RATE) / 1_000));
  });

  it('is not used up by refused requests', async () => {
    const { store, advance } = current();
    const key = unique('key');
    await takeOne(store, key, RATE, 4);
    for (let call = 0; call < 20; call++) await takeOne(store, key, RATE, 5);
    await advance(intervalUs(RATE) / 1_000);
    expect(await takeOne(store, key, RATE)).toMatchObject({ granted: 1 });
  });

  it('refills over time, up to one burst', async () => {
    const { store, advance } = current();
    const key = unique('key');
    await takeOne(store, key, RATE, 4);
    await advance(HOUR);
    expect(await takeOne(store, key, RATE, 100)).toMatchObject({ granted: 4 });
  });

  it('is separate for each key, even within one call', async () => {
    const { store } = current();
    const [one, other] = [unique('key'), unique('key')];
    await takeOne(store, one, RATE, 4);
    const grants = await store.take([
      { key: one, rate: RATE, count: 1 },
      { key: other, rate: RATE, count: 1 },
    ]);
    expect(grants.map(({ granted }) => granted)).toEqual([0, 1]);
  });

  it('counts concurrent requests once each', async () => {
    const { store } = current();
    const key = unique('key');
    const rate = { limit: 100, perMs: HOUR, burst: 20 };
    const grants = await Promise.all(Array.from({ length: 64 }, () => takeOne(store, key, rate)));
    expect(grants.reduce((sum, { granted }) => sum + granted, 0)).toBe(20);
  });

  it('is refunded for admissions that were not used', async () => {
    const { store } = current();
    const key = unique('key');
    const { mark } = await takeOne(store, key, RATE, 4);
    expect(await store.refund([{ key, rate: RATE, count: 3, mark }])).toEqual([true]);
    expect(await takeOne(store, key, RATE, 9)).toMatchObject({ granted: 3 });
  });

  it('is not refunded after a later admission under the same key', async () => {
    const { store } = current();
    const key = unique('key');
    const { mark } = await takeOne(store, key, RATE, 3);
    await takeOne(store, key, RATE, 1);
    expect(await store.refund([{ key, rate: RATE, count: 3, mark }])).toEqual([false]);
    expect(await store.refund([{ key: unique('key'), rate: RATE, count: 1, mark }])).toEqual([
      false,
    ]);
    expect(await takeOne(store, key, RATE)).toMatchObject({ granted: 0 });
  });

  it('does not wait out the backlog of a slower rate that it replaces', async () => {
    const { store, advance } = current();
    const key = unique('key');
    await takeOne(store, key, { limit: 2, perMs: 100 * HOUR, burst: 2 }, 2);
    expect(await takeOne(store, key, RATE)).toMatchObject({ granted: 0 });
    await advance(intervalUs(RATE) / 1_000);
    expect(await takeOne(store, key, RATE)).toMatchObject({ granted: 1 });
  });
}

/** The greatest number of admissions in any window of this length, excluding its end. */
function mostWithin(instantsMs: readonly number[], perMs: number): number {
  return Math.max(
    0,
    ...instantsMs.map(from => instantsMs.filter(at => at >= from && at < from + perMs).length),
  );
}

function windows(current: Current, numRuns: number): void {
  it('at most the limit is granted, for any calls and any start of the window', async () => {
    const { store, advance } = current();
    // Time is advanced, not slept. The calls take time themselves, so a step is longer than all of them together.
    const stepMs = MINUTE;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }).chain(limit =>
          fc.record({
            limit: fc.constant(limit),
            burst: fc.integer({ min: 1, max: limit }),
            calls: fc.array(
              fc.record({
                waits: fc.integer({ min: 0, max: 12 }),
                count: fc.integer({ min: 1, max: 15 }),
              }),
              { maxLength: 12 },
            ),
          }),
        ),
        async ({ limit, burst, calls }) => {
          const key = unique('key');
          const rate = { limit, perMs: 10 * stepMs, burst };
          const admitted: number[] = [];
          let now = 0;
          for (const { waits, count } of calls) {
            if (waits > 0) await advance(waits * stepMs);
            now += waits * stepMs;
            const { granted } = await takeOne(store, key, rate, count);
            admitted.push(...Array.from({ length: granted }, () => now));
          }
          expect(mostWithin(admitted, rate.perMs)).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns },
    );
  });

  it('two bursts around a window edge stay within the limit', async () => {
    const { store, advance } = current();
    const key = unique('key');
    const rate = { limit: 50, perMs: 10_000, burst: 25 };
    const first = await takeOne(store, key, rate, 50);
    await advance(1_000);
    const second = await takeOne(store, key, rate, 50);
    expect(first.granted).toBe(25);
    expect(first.granted + second.granted).toBeLessThanOrEqual(50);
    expect(second.granted).toBeGreaterThan(0);
  });
}

function permits(current: Current): void {
  it('is valid for one task, however often that task confirms it', async () => {
    const { store } = current();
    const token = unique('token');
    await store.hold(token, MINUTE);
    expect(await store.confirm([{ token, task: 'a' }])).toEqual([true]);
    expect(await store.confirm([{ token, task: 'a' }])).toEqual([true]);
    expect(
      await store.confirm([
        { token, task: 'b' },
        { token: unique('token'), task: 'b' },
      ]),
    ).toEqual([false, false]);
  });

  it('expires', async () => {
    const { store, advance } = current();
    const token = unique('token');
    await store.hold(token, MINUTE);
    await advance(2 * MINUTE);
    expect(await store.confirm([{ token, task: 'a' }])).toEqual([false]);
  });
}

function reservations(current: Current): void {
  it('are granted in the order of the runs up to the limit, and a run that has one keeps it', async () => {
    const { store } = current();
    const key = unique('key');
    const holders = [holder(), holder(), holder()];
    const first = await store.reserve({ key, limit: 2, holders });
    expect(first).toEqual({ isIn: [true, true, false], waiting: 0 });
    const again = await store.reserve({ key, limit: 2, holders: holders.toReversed() });
    expect(again).toEqual({ isIn: [false, true, true], waiting: 0 });
  });

  it('wake the task that has waited longest when they are freed, one task for each', async () => {
    const { store, advance } = current();
    const key = unique('key');
    const [first, second, third, last] = [holder(), holder(), holder(), holder()];
    await store.reserve({ key, limit: 2, holders: [first, second] });
    expect(await store.want({ key, limit: 2, task: third.task })).toBe(false);
    await advance(10);
    expect(await store.want({ key, limit: 2, task: last.task })).toBe(false);
    expect(await store.want({ key, limit: 2, task: third.task })).toBe(false);
    expect(await store.reserve({ key, limit: 2, holders: [last] })).toMatchObject({ waiting: 2 });
    expect(await store.free([{ key, ...first }])).toEqual([third.task]);
    expect(await store.want({ key, limit: 2, task: third.task })).toBe(true);
    expect(await store.free([{ key, ...first }])).toEqual([]);
    expect(await store.reserve({ key, limit: 2, holders: [third] })).toMatchObject({
      isIn: [true],
    });
    expect(
      await store.free([
        { key, ...second },
        { key, ...third },
      ]),
    ).toEqual([last.task]);
    expect(await store.free([{ key, ...second }])).toEqual([]);
  });

  it('leave no task waiting while one is free, in any order of calls', async () => {
    const { store } = current();
    const rounds = Array.from({ length: 20 }, async () => {
      const [key, inside, task] = [unique('key'), holder(), unique('task')];
      await store.reserve({ key, limit: 1, holders: [inside] });
      const [isFree, woken] = await Promise.all([
        store.want({ key, limit: 1, task }),
        store.free([{ key, ...inside }]),
      ]);
      return isFree || woken.includes(task);
    });
    expect(await Promise.all(rounds)).not.toContain(false);
  });

  it('never exceed the limit under concurrent requests', async () => {
    const { store } = current();
    const key = unique('key');
    const asks = Array.from({ length: 64 }, () =>
      store.reserve({ key, limit: 5, holders: [holder()] }),
    );
    const answers = await Promise.all(asks);
    expect(answers.flatMap(({ isIn }) => isIn).filter(Boolean)).toHaveLength(5);
  });

  it('are kept by their runs when the limit is lowered', async () => {
    const { store } = current();
    const key = unique('key');
    const [one, two, three] = [holder(), holder(), holder()];
    await store.reserve({ key, limit: 2, holders: [one, two] });
    expect(await store.reserve({ key, limit: 1, holders: [one, two, three] })).toMatchObject({
      isIn: [true, true, false],
    });
  });
}

function sweeping(current: Current): void {
  it('are freed, and those of running tasks are kept', async () => {
    const fixture = current();
    const driver = new LedgerDriver(fixture);
    const key = unique('key');
    const runs = await Promise.all([driver.running(), driver.running(), driver.running()]);
    const [living, ended, lost] = runs.map(({ task }) => ({ task: task.id, run: task.run }));
    if (!living || !ended || !lost) throw new Error('three runs are needed');
    const late = holder();
    const { store } = fixture;
    await store.reserve({ key, limit: 3, holders: [living, ended, lost] });
    await store.want({ key, limit: 3, task: late.task });
    expect(await store.sweep(key, 100)).toEqual({ freed: 0, wake: [] });
    await driver.commit(runs[1].task);
    await driver.crash(runs[2].worker);
    // It runs again under another run token; the reservation belonged to the earlier run.
    await driver.beginWaiting(runs[2].envelope);
    expect(await store.sweep(key, 100)).toEqual({ freed: 2, wake: [late.task] });
    const [found] = (await store.figures()).filter(figure => figure.key === key);
    expect(found).toMatchObject({ held: 1 });
  });

  it('are freed under every key when no key is given', async () => {
    const { store } = current();
    const keys = [unique('key'), unique('key')];
    for (const key of keys) await store.reserve({ key, limit: 1, holders: [holder()] });
    await store.sweep(null, 1_000);
    const held = (await store.figures()).filter(({ key }) => keys.includes(key));
    expect(held.map(figure => figure.held)).toEqual([0, 0]);
  });
}

function figures(current: Current): void {
  it('show how many are available, held, waiting and rejected', async () => {
    const { store } = current();
    const key = unique('key');
    await takeOne(store, key, RATE, 7);
    await store.reserve({ key, limit: 1, holders: [holder(), holder()] });
    await store.want({ key, limit: 1, task: unique('task') });
    const [found] = (await store.figures()).filter(figure => figure.key === key);
    expect(found).toEqual({
      key,
      rate: RATE,
      available: 0,
      concurrency: 1,
      held: 1,
      waiting: 1,
      rejected: 4,
    });
  });

  it('are sorted by key, and have no rate for a key without one', async () => {
    const { store } = current();
    const key = unique('key');
    await store.reserve({ key, limit: 2, holders: [holder()] });
    const all = await store.figures();
    expect(all.find(figure => figure.key === key)).toMatchObject({ rate: null, available: null });
    expect(all.map(figure => figure.key)).toEqual(all.map(figure => figure.key).toSorted());
  });

  it('of a held key survive pruning, and an idle key has its full rate again', async () => {
    const { store, advance } = current();
    const [idle, held] = [unique('key'), unique('key')];
    await takeOne(store, idle, RATE);
    const runs = [holder()];
    await store.reserve({ key: held, limit: 1, holders: runs });
    await advance(50 * HOUR);
    await store.prune();
    const known = (await store.figures()).map(({ key }) => key);
    expect(known).toContain(held);
    expect(await store.reserve({ key: held, limit: 1, holders: [holder()] })).toMatchObject({
      isIn: [false],
    });
    // An idle key may still be listed or not; its full rate is available.
    expect(await takeOne(store, idle, RATE, 9)).toMatchObject({ granted: RATE.burst });
  });
}
