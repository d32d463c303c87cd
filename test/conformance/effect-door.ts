import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isOutlastError } from '../../src/errors/error.ts';
import type { FaultPoint } from '../../src/runtime/runtime.ts';
import type { EffectDoor } from '../../src/worker/effects/door.ts';
import { AWKWARD_BYTES, bytesOf, makeEnvelope, unique } from './envelopes.ts';
import { LedgerDriver, type LedgerFixture } from './ledger-driver.ts';

export interface DoorFixture<Tx> extends LedgerFixture {
  readonly door: EffectDoor<Tx>;
  /** Performs an effect inside the transaction: inserts one row under this key. */
  write(tx: Tx, key: string): Promise<void>;
  /** How many rows of this key are committed. */
  count(key: string): Promise<number>;
  /** False where the ledger cannot be called while a transaction is open. */
  readonly canInterleave: boolean;
  /** The same door with fault points; left out where the ledger is the same database. */
  readonly doorWith?: (faultPoint: FaultPoint) => EffectDoor<Tx>;
}

/** Everything the effect-once door must do, wherever the ledger is. */
export function describeEffectDoor<Tx>(
  name: string,
  makeFixture: () => Promise<DoorFixture<Tx>>,
): void {
  describe(`effect-once door: ${name}`, () => {
    let fixture: DoorFixture<Tx> | undefined;
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
    describe('a step', () => onceOnly(current));
    describe('the fence', () => fencing(current));
    describe('tasks with an idempotency key', () => keys(current));
  });
}

type Current<Tx> = () => { readonly fixture: DoorFixture<Tx>; readonly driver: LedgerDriver };

const VALUE = Uint8Array.from([0x34, 0x32]);

function onceOnly<Tx>(current: Current<Tx>): void {
  it('runs its effect once, and returns its value to every later run', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const { envelope, task: first } = await driver.running();
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return AWKWARD_BYTES;
    };
    expect(bytesOf(await fixture.door.pass(first, 'main', effect))).toEqual(bytesOf(AWKWARD_BYTES));
    await driver.release(first);
    const { task: second } = await driver.beginWaiting(envelope);
    const never = (): Promise<never> => Promise.reject(new Error('ran again'));
    expect(bytesOf(await fixture.door.pass(second, 'main', never))).toEqual(bytesOf(AWKWARD_BYTES));
    expect(await fixture.count(key)).toBe(1);
  });

  it('may return no value', async () => {
    const { fixture, driver } = current();
    const { task } = await driver.running();
    expect(await fixture.door.pass(task, 'main', async () => null)).toBeNull();
    const never = (): Promise<never> => Promise.reject(new Error('ran again'));
    expect(await fixture.door.pass(task, 'main', never)).toBeNull();
  });

  it('is separate for each name and each task', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return VALUE;
    };
    const { task } = await driver.running();
    const { task: other } = await driver.running();
    await fixture.door.pass(task, 'one', effect);
    await fixture.door.pass(task, 'two', effect);
    await fixture.door.pass(other, 'one', effect);
    expect(await fixture.count(key)).toBe(3);
  });

  it('is rolled back when its function throws, and can be retried', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const { task } = await driver.running();
    const broken = async (tx: Tx): Promise<never> => {
      await fixture.write(tx, key);
      throw new Error('no');
    };
    await expect(fixture.door.pass(task, 'main', broken)).rejects.toThrow('no');
    expect(await fixture.count(key)).toBe(0);
    await fixture.door.pass(task, 'main', async tx => {
      await fixture.write(tx, key);
      return VALUE;
    });
    expect(await fixture.count(key)).toBe(1);
  });
}

function fencing<Tx>(current: Current<Tx>): void {
  const isStale = (error: unknown): boolean => isOutlastError(error, 'ERR_FENCE_STALE');

  it('refuses a run that was released, reaped or settled, and a run of an unknown task', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const released = await driver.running();
    await driver.release(released.task);
    const reaped = await driver.running();
    await driver.crash(reaped.worker);
    const done = await driver.running();
    await driver.commit(done.task);
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return VALUE;
    };
    for (const ref of [released.task, reaped.task, done.task]) {
      await expect(fixture.door.pass(ref, 'main', effect)).rejects.toSatisfy(isStale);
    }
    // Absence is never success. A store may report that it did not issue this run.
    const nobodys = { ...done.task, id: unique('task') };
    await expect(fixture.door.pass(nobodys, 'main', effect)).rejects.toSatisfy(
      (error: unknown) => isStale(error) || isOutlastError(error, 'ERR_CONFIG_TIER'),
    );
    expect(await fixture.count(key)).toBe(0);
  });

  it('refuses the previous run while the next one runs, and admits the next one', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const { worker, envelope, task: old } = await driver.running();
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(envelope);
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return VALUE;
    };
    await expect(fixture.door.pass(old, 'main', effect)).rejects.toSatisfy(isStale);
    await fixture.door.pass(next, 'main', effect);
    expect(await fixture.count(key)).toBe(1);
  });

  it('refuses earlier runs even before a later run has had an effect', async () => {
    const { fixture, driver } = current();
    const { worker, envelope, task: old } = await driver.running();
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(envelope);
    await fixture.door.fence(next);
    const never = (): Promise<never> => Promise.reject(new Error('ran'));
    await expect(fixture.door.pass(old, 'main', never)).rejects.toSatisfy(isStale);
    expect(await fixture.door.pass(next, 'main', async () => VALUE)).toEqual(VALUE);
  });

  it('prevents a task from being taken away between the check and the effect', async () => {
    const { fixture, driver } = current();
    if (!fixture.canInterleave) return;
    const key = unique('effect');
    const { worker, envelope, task } = await driver.running(makeEnvelope());
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      await driver.ledger.condemn({ kind: 'worker', worker });
      await driver.ledger.reap(1_000);
      return VALUE;
    };
    // Either the lock blocks the reaper, or the reaper was first and the effect is rolled back.
    const isThrough = await fixture.door.pass(task, 'main', effect).then(
      () => true,
      (error: unknown) => {
        if (!isStale(error)) throw error;
        return false;
      },
    );
    expect(await fixture.count(key)).toBe(isThrough ? 1 : 0);
    await driver.reapAll();
    const { task: next } = await driver.beginWaiting(envelope);
    await fixture.door.pass(next, 'main', async tx => {
      await fixture.write(tx, key);
      return VALUE;
    });
    expect(await fixture.count(key)).toBe(1);
  });
}

function keys<Tx>(current: Current<Tx>): void {
  it('share each step, and a key never collides with a task id', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return AWKWARD_BYTES;
    };
    const never = (): Promise<never> => Promise.reject(new Error('ran again'));
    const ofKey = { effect: { key: unique('ünusual key\u2028'), origin: 'o', ttlMs: 60_000 } };
    const [{ task: one }, { task: other }] = [await driver.running(), await driver.running()];
    await fixture.door.pass({ ...one, ...ofKey }, 'main', effect);
    const found = await fixture.door.pass({ ...other, ...ofKey }, 'main', never);
    expect(bytesOf(found)).toEqual(bytesOf(AWKWARD_BYTES));
    // From now on each task has its own copy of the step, whether it ran it or received it: the key may be forgotten.
    for (const task of [one, other])
      expect(bytesOf(await fixture.door.pass(task, 'main', never))).toEqual(bytesOf(AWKWARD_BYTES));
    const { task: third } = await driver.running();
    const named = { effect: { key: other.id, origin: 'o', ttlMs: 60_000 } };
    await fixture.door.pass({ ...third, ...named }, 'main', effect);
    expect(await fixture.count(key)).toBe(2);
  });

  it('run their steps again after the record of the key has expired', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const effect = async (tx: Tx): Promise<null> => {
      await fixture.write(tx, key);
      return null;
    };
    const [{ task: one }, { task: other }] = [await driver.running(), await driver.running()];
    const named = { key: unique('key'), ttlMs: 1 };
    await fixture.door.pass({ ...one, effect: { ...named, origin: one.id } }, 'main', effect);
    await fixture.advance(2);
    const anew = { ...other, effect: { ...named, origin: other.id } };
    await fixture.door.pass(anew, 'main', effect);
    expect(await fixture.count(key)).toBe(2);
  });

  it('keep their steps when the key store has lost the origin of the key', async () => {
    const { fixture, driver } = current();
    const key = unique('effect');
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return VALUE;
    };
    const named = { key: unique('key'), ttlMs: 60_000 };
    for (let times = 0; times < 3; times++) {
      // A store without the origin takes each task for the first holder of the key.
      const { task } = await driver.running();
      const ofKey = { ...task, effect: { ...named, origin: task.id } };
      expect(bytesOf(await fixture.door.pass(ofKey, 'main', effect))).toEqual(bytesOf(VALUE));
    }
    expect(await fixture.count(key)).toBe(1);
  });

  it('have the effect once when they pass the door at the same time', async () => {
    const { fixture, driver } = current();
    if (!fixture.canInterleave) return;
    const key = unique('effect');
    const ofKey = { effect: { key: unique('key'), origin: 'o', ttlMs: 60_000 } };
    const [{ task: one }, { task: other }] = [await driver.running(), await driver.running()];
    const effect = async (tx: Tx): Promise<Uint8Array> => {
      await fixture.write(tx, key);
      return VALUE;
    };
    const passes = [one, other].map(task =>
      fixture.door.pass({ ...task, ...ofKey }, 'main', effect),
    );
    expect((await Promise.all(passes)).map(bytesOf)).toEqual([bytesOf(VALUE), bytesOf(VALUE)]);
    expect(await fixture.count(key)).toBe(1);
  });
}
