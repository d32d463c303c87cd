import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Envelope } from '../../src/task/envelope.ts';
import { AWKWARD_BYTES, bytesOf, makeEnvelope, MINUTE, unique } from './envelopes.ts';
import { LedgerDriver, sampleError, type LedgerFixture } from './ledger-driver.ts';

export interface ResultFixture extends LedgerFixture {
  /** Commits tasks to an outbox that the results can see; null where they see none. */
  readonly write: ((envelopes: readonly Envelope[]) => Promise<void>) | null;
}

/** Everything a result store must do; the steps of the ledger write the results. */
export function describeResultStore(name: string, makeFixture: () => Promise<ResultFixture>): void {
  describe(`result store: ${name}`, () => {
    let fixture: ResultFixture | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });
    const current = (): { fixture: ResultFixture; driver: LedgerDriver } => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      return { fixture, driver: new LedgerDriver(fixture) };
    };
    describe('before the end', () => beforeTheEnd(current));
    describe('endings', () => endings(current));
  });
}

type Current = () => { fixture: ResultFixture; driver: LedgerDriver };

const NOT_ENDED = { ending: null, result: null };

function beforeTheEnd(current: Current): void {
  it('returns unknown for an id that was never used', async () => {
    const record = await current().fixture.results.read(unique('task'));
    expect(record).toEqual({
      state: 'unknown',
      ending: null,
      result: null,
      error: null,
      why: null,
    });
  });

  it('reports a committed task as pending until it is relayed', async () => {
    const { fixture } = current();
    if (fixture.write === null) return;
    const task = makeEnvelope();
    await fixture.write([task]);
    expect(await fixture.results.read(task.id)).toMatchObject({ state: 'pending', ...NOT_ENDED });
  });

  it('follows a task while it waits, runs and waits again', async () => {
    const { fixture, driver } = current();
    const task = makeEnvelope();
    await driver.put(task);
    expect(await fixture.results.read(task.id)).toMatchObject({ state: 'waiting', ...NOT_ENDED });
    const running = await driver.beginWaiting(task);
    expect(await fixture.results.read(task.id)).toMatchObject({ state: 'running', ...NOT_ENDED });
    await driver.fail(running.task, { delayMs: MINUTE });
    expect(await fixture.results.read(task.id)).toMatchObject({ state: 'waiting', ...NOT_ENDED });
  });
}

function endings(current: Current): void {
  it('returns the bytes of a result, even awkward and empty ones', async () => {
    const { fixture, driver } = current();
    for (const result of [AWKWARD_BYTES, new TextEncoder().encode('null'), null]) {
      const { id } = await driver.done(makeEnvelope(), { outcome: { kind: 'done', result } });
      const record = await fixture.results.read(id);
      expect(record).toMatchObject({ state: 'done', ending: 'done', error: null });
      expect(bytesOf(record.result)).toEqual(bytesOf(result));
    }
  });

  it('returns the reason why a task was discarded', async () => {
    const { fixture, driver } = current();
    const { id } = await driver.done(makeEnvelope(), {
      outcome: { kind: 'discarded', why: 'order cancelled' },
    });
    const expected = { state: 'done', ending: 'discarded', result: null, why: 'order cancelled' };
    expect(await fixture.results.read(id)).toMatchObject(expected);
  });

  it('returns the last error of a dead task', async () => {
    const { fixture, driver } = current();
    const { envelope, task } = await driver.running();
    await driver.fail(task, { error: sampleError('first') });
    const { task: second } = await driver.beginWaiting(envelope);
    await driver.fail(second, { error: sampleError('second'), delayMs: null });
    const expected = { state: 'dead', ending: 'dead', result: null, error: sampleError('second') };
    expect(await fixture.results.read(envelope.id)).toMatchObject(expected);
  });

  it('distinguishes cancelled from expired', async () => {
    const { fixture, driver } = current();
    const cancelled = unique('task');
    await driver.ledger.cancel(cancelled);
    const expired = makeEnvelope({ expiresMs: (await driver.nowMs()) - MINUTE });
    await driver.begin((await driver.open()).worker, { messages: [expired] });
    expect(await fixture.results.read(cancelled)).toMatchObject({
      state: 'cancelled',
      ending: 'cancelled',
    });
    expect(await fixture.results.read(expired.id)).toMatchObject({
      state: 'cancelled',
      ending: 'expired',
    });
  });

  it('forgets the ending of a revived task', async () => {
    const { fixture, driver } = current();
    const { id } = await driver.dead();
    const version = (await fixture.readModel.showDeadLetter(id))?.version ?? -1;
    await driver.ledger.revive(id, version);
    expect(await fixture.results.read(id)).toMatchObject({
      state: 'waiting',
      ...NOT_ENDED,
      error: null,
    });
  });
}
