import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isOutlastError } from '../../src/errors/error.ts';
import type { LedgerReads } from '../../src/ledger/ledger-reads.ts';
import type { FenceRows } from '../../src/recovery/fence-rows.ts';
import { keepFences } from '../../src/recovery/keep-fences.ts';
import type { FaultPoint } from '../../src/runtime/runtime.ts';
import type { EffectDoor } from '../../src/worker/effects/door.ts';
import { gate } from '../support/database.ts';
import type { DoorFixture } from './effect-door.ts';
import { bytesOf, HOUR, MINUTE, unique } from './envelopes.ts';
import { LedgerDriver } from './ledger-driver.ts';

/** A door to a database that does not hold the ledger. */
export interface SeparateDoorFixture<Tx> extends DoorFixture<Tx> {
  doorWith(faultPoint: FaultPoint): EffectDoor<Tx>;
  readonly reads: Pick<LedgerReads, 'states'>;
  readonly rows: FenceRows;
  /** What the driver throws when the transaction must be restarted. */
  conflict(): Error;
  /** The rows of a task: the epoch of its fence, and how many steps it has. */
  kept(id: string): Promise<{ readonly epoch: number | null; readonly steps: number }>;
  /** Shifts every time of fences and steps back. */
  age(ms: number): Promise<void>;
}

/** What the door must do in addition where the ledger is elsewhere. */
export function describeSeparateDoor<Tx>(
  name: string,
  makeFixture: () => Promise<SeparateDoorFixture<Tx>>,
): void {
  describe(`effect-once door with a separate ledger: ${name}`, () => {
    let fixture: SeparateDoorFixture<Tx> | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });
    const current: Current<Tx> = () => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      return { fixture, driver: new LedgerDriver(fixture) };
    };
    describe('runs of a task', () => racing(current));
    describe('a ledger that has lost its data', () => raising(current));
    describe('rows', () => rowsOf(current));
  });
}

type Current<Tx> = () => {
  readonly fixture: SeparateDoorFixture<Tx>;
  readonly driver: LedgerDriver;
};

const [OLD, NEXT] = [Uint8Array.from([1]), Uint8Array.from([2])];
const isStale = (error: unknown): boolean => isOutlastError(error, 'ERR_FENCE_STALE');
const never = (): Promise<never> => Promise.reject(new Error('ran again'));

function effectOf<Tx>(fixture: SeparateDoorFixture<Tx>, key: string, value: Uint8Array) {
  return async (tx: Tx): Promise<Uint8Array> => {
    await fixture.write(tx, key);
    return value;
  };
}

function racing<Tx>(current: Current<Tx>): void {
  // Before the ledger is asked, the task may still be lost; from then on the lock blocks the next run until COMMIT.
  it.each([
    ['door.fenced', 'the later run'],
    ['inside', 'the earlier run'],
    ['door.effect-not-committed', 'the earlier run'],
  ] as const)('meet while the first is at %s: %s has the effect', async (point, winner) => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const [paused, goOn] = [gate(), gate()];
    const pause = async (at: string): Promise<void> => {
      if (at !== point) return;
      paused.open();
      await goOn.opened;
    };
    const { worker, envelope, task: old } = await driver.running();
    const first = fixture.doorWith(pause).pass(old, 'main', async tx => {
      const value = await effectOf(fixture, key, OLD)(tx);
      await pause('inside');
      return value;
    });
    first.catch(() => undefined);
    await paused.opened;
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(envelope);
    const second = fixture.door.pass(next, 'main', effectOf(fixture, key, NEXT));
    second.catch(() => undefined);
    goOn.open();
    if (winner === 'the later run') {
      await expect(first).rejects.toSatisfy(isStale);
      expect(bytesOf(await second)).toEqual(bytesOf(NEXT));
    } else {
      expect(bytesOf(await first)).toEqual(bytesOf(OLD));
      expect(bytesOf(await second)).toEqual(bytesOf(OLD));
    }
    expect(await fixture.count(key)).toBe(1);
    // From here on the earlier run is refused for good.
    await expect(fixture.door.pass(old, 'other', never)).rejects.toSatisfy(isStale);
    expect(await fixture.kept(next.id)).toEqual({ epoch: next.epoch, steps: 1 });
  });

  it('wait at the door: the earlier one waits while the later one is inside, and is refused', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const [inside, goOn] = [gate(), gate()];
    const { worker, envelope, task: old } = await driver.running();
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(envelope);
    const second = fixture.door.pass(next, 'main', async tx => {
      inside.open();
      await goOn.opened;
      return await effectOf(fixture, key, NEXT)(tx);
    });
    await inside.opened;
    const first = fixture.door.pass(old, 'main', never);
    first.catch(() => undefined);
    goOn.open();
    await second;
    await expect(first).rejects.toSatisfy(isStale);
    expect(await fixture.count(key)).toBe(1);
  });

  it('restart the transaction when the database asks for it, and have the effect once', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const { task } = await driver.running();
    let starts = 0;
    await fixture.door.pass(task, 'main', async tx => {
      starts += 1;
      await fixture.write(tx, key);
      if (starts < 3) throw fixture.conflict();
      return null;
    });
    expect([starts, await fixture.count(key)]).toEqual([3, 1]);
  });
}

function raising<Tx>(current: Current<Tx>): void {
  it.each([0, 50])(
    'raises the run that owns the task above a fence that is %i higher, and no other run',
    async by => {
      const { fixture, driver } = current();
      const key = unique('effect');
      const { worker, envelope, task } = await driver.running();
      const lost = { ...task, epoch: task.epoch + by, run: unique('run') };
      await fixture.door.fence(lost);
      const effect = effectOf(fixture, key, NEXT);
      const both = [
        fixture.door.pass(task, 'one', effect),
        fixture.door.pass(task, 'two', effect),
        fixture.door.pass(lost, 'three', effect),
      ];
      const [one, two, three] = await Promise.allSettled(both);
      expect([one?.status, two?.status, three?.status]).toEqual([
        'fulfilled',
        'fulfilled',
        'rejected',
      ]);
      expect(isStale((three as PromiseRejectedResult).reason)).toBe(true);
      expect(await fixture.count(key)).toBe(2);
      const epoch = lost.epoch + 1;
      expect(await fixture.kept(task.id)).toEqual({ epoch, steps: 2 });
      expect(await driver.ledger.renew(worker)).toMatchObject({ runs: [{ epoch }] });
      expect(await driver.commit({ ...task, epoch })).toBe('ok');
      expect(await driver.state(envelope.id)).toBe('done');
    },
  );
}

function rowsOf<Tx>(current: Current<Tx>): void {
  const look = async ({ reads, rows }: SeparateDoorFixture<Tx>): Promise<void> => {
    while ((await keepFences({ rows, ledger: reads, dedupMs: 15 * MINUTE }, 100)) === 100);
  };
  const fenced = async () => {
    const { fixture, driver } = current();
    const running = await driver.running();
    await fixture.door.pass(running.task, 'main', async () => NEXT);
    return { fixture, driver, ...running };
  };
  const all = { epoch: 1, steps: 1 };
  const none = { epoch: null, steps: 0 };

  it('of a task are kept while it runs, waits or is dead, and for its window after it is done', async () => {
    const { fixture, driver, envelope, task } = await fenced();
    for (const settle of [() => undefined, () => driver.release(task)]) {
      await settle();
      await fixture.age(2 * HOUR);
      await look(fixture);
      expect(await fixture.kept(task.id)).toEqual(all);
    }
    const { task: next } = await driver.beginWaiting(envelope);
    await driver.bury(next);
    for (let hours = 0; hours < 100; hours += 50) {
      await fixture.age(50 * HOUR);
      await look(fixture);
    }
    expect(await fixture.kept(task.id)).toEqual(all);
    const letter = await fixture.readModel.showDeadLetter(task.id);
    await driver.ledger.revive(task.id, letter?.version ?? 0);
    const { task: last } = await driver.beginWaiting(envelope);
    await driver.commit(last, { dedupMs: HOUR });
    await fixture.age(2 * HOUR);
    await look(fixture);
    await fixture.age(14 * MINUTE);
    await look(fixture);
    expect(await fixture.kept(task.id)).toEqual(all);
    await fixture.age(2 * MINUTE);
    await look(fixture);
    expect(await fixture.kept(task.id)).toEqual(none);
  });

  it('of an unknown task are kept for a day, and longer when it comes back', async () => {
    const { fixture, driver } = current();
    const [id, back] = [unique('task'), unique('task')];
    for (const one of [id, back]) await fixture.door.fence({ id: one, epoch: 1, run: 'lost' });
    await fixture.age(2 * MINUTE);
    await look(fixture);
    await fixture.age(23 * HOUR);
    await look(fixture);
    expect((await fixture.kept(id)).epoch).toBe(1);
    await fixture.door.fence({ id: back, epoch: 2, run: 'again' });
    await fixture.age(2 * HOUR);
    await look(fixture);
    expect([(await fixture.kept(id)).epoch, (await fixture.kept(back)).epoch]).toEqual([null, 2]);
    expect(await driver.state(id)).toBeUndefined();
  });

  it('of a key are kept for their time after their task is forgotten', async () => {
    const { fixture, driver } = current();
    const { task } = await driver.running();
    const effect = { key: unique('key'), origin: task.id, ttlMs: 3 * HOUR };
    await fixture.door.pass({ ...task, effect }, 'main', async () => NEXT);
    await driver.commit(task, { dedupMs: HOUR });
    for (let looks = 0; looks < 2; looks++) {
      await fixture.age(20 * MINUTE);
      await look(fixture);
    }
    expect(await fixture.kept(task.id)).toEqual({ epoch: null, steps: 1 });
    const { task: other } = await driver.running();
    const found = await fixture.door.pass({ ...other, effect }, 'main', never);
    expect(bytesOf(found)).toEqual(bytesOf(NEXT));
    await fixture.age(4 * HOUR);
    await fixture.rows.prune(100);
    expect((await fixture.kept(task.id)).steps).toBe(0);
  });

  it('of a key that an operator has reset do not stop its steps from running again', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const named = { key: unique('key'), ttlMs: HOUR };
    for (const by of ['nobody', 'an operator']) {
      if (by === 'an operator') await fixture.rows.forgetKey(named.key);
      const { task } = await driver.running();
      const ofKey = { ...task, effect: { ...named, origin: task.id } };
      await fixture.door.pass(ofKey, 'main', effectOf(fixture, key, NEXT));
    }
    expect(await fixture.count(key)).toBe(2);
  });

  it('that are in use are not deleted', async () => {
    const { fixture, driver, task } = await fenced();
    if (!fixture.canInterleave) return;
    await driver.commit(task, { dedupMs: HOUR });
    await fixture.age(2 * HOUR);
    await look(fixture);
    await fixture.age(HOUR);
    const late = { ...task, epoch: task.epoch + 1, run: unique('run') };
    const pass = fixture.doorWith(async at => {
      if (at === 'door.fenced') await look(fixture);
    });
    // The ledger does not know the run, so it gets no further; but its row must not be deleted meanwhile.
    await expect(pass.pass(late, 'main', never)).rejects.toSatisfy(isStale);
    expect(await fixture.kept(task.id)).toEqual(all);
    await look(fixture);
    expect(await fixture.kept(task.id)).toEqual(none);
  });
}
