import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FIGURES, type Figure, type Objective } from '../../src/ledger/tallies.ts';
import type { Slo } from '../../src/task/slo.ts';
import { HOUR, MINUTE, makeEnvelope, unique } from './envelopes.ts';
import { LedgerDriver, runRef } from './ledger-driver.ts';
import type { LedgerReadsFixture } from './ledger-reads.ts';

const SLO: Slo = { success: 0.999, latency: { withinMs: 10 * MINUTE, target: 0.99 } };

/** What a ledger counts: once, in the step in which it happens. */
export function describeTallies(
  name: string,
  makeFixture: () => Promise<LedgerReadsFixture>,
): void {
  describe(`tallies: ${name}`, () => {
    let fixture: LedgerReadsFixture;
    let driver: LedgerDriver;
    beforeAll(async () => {
      fixture = await makeFixture();
      driver = new LedgerDriver(fixture);
    });
    afterAll(() => fixture.dispose());
    totals(
      () => driver,
      () => fixture,
    );
    buckets(
      () => driver,
      () => fixture,
    );
  });
}

type Get<T> = () => T;

function totals(driver: Get<LedgerDriver>, fixture: Get<LedgerReadsFixture>): void {
  const totalsOf = async (task: string): Promise<Partial<Record<Figure, number>>> => {
    const sums: Partial<Record<Figure, number>> = {};
    for (const { name, counts } of await fixture().reads.totals())
      for (const figure of FIGURES)
        if (name === task && counts[figure] !== undefined)
          sums[figure] = (sums[figure] ?? 0) + counts[figure];
    return sums;
  };

  it('count how tasks ended and what it took, by name and queue', async () => {
    const name = unique('tallied');
    const make = () => makeEnvelope({ name });
    await driver().done(make());
    await driver().done(make(), { outcome: { kind: 'discarded', why: 'no need' } });
    const twice = make();
    await driver().fail((await driver().running(twice)).task);
    const { worker } = await driver().beginWaiting(twice);
    await driver().crash(worker);
    const { task } = await driver().beginWaiting(twice);
    await driver().fail(task, { delayMs: null });
    const buried = await driver().running(make());
    await driver().bury(buried.task);
    const cancelled = await driver().running(make());
    await driver().ledger.cancel(cancelled.envelope.id);
    expect(await driver().commit(cancelled.task)).toBe('stale');
    const late = makeEnvelope({ name, expiresMs: (await driver().nowMs()) - MINUTE });
    await driver().put(late);
    const other = await driver().open();
    await driver().begin(other.worker, { queues: [late.queue], limit: 1 });
    expect(await totalsOf(name)).toEqual({
      done: 1,
      discarded: 1,
      failed: 2,
      retried: 1,
      resurrected: 1,
      dead: 2,
      cancelled: 1,
      stale: 1,
      expired: 1,
    });
    const queues = (await fixture().reads.totals()).filter(row => row.name === name);
    expect(queues.find(({ queue }) => queue === twice.queue)?.counts).toEqual({
      failed: 2,
      retried: 1,
      resurrected: 1,
      dead: 1,
    });
  });

  it('count a step once that is repeated after a lost reply', async () => {
    const name = unique('tallied');
    const { task } = await driver().running(makeEnvelope({ name }));
    for (let times = 0; times < 3; times++) expect(await driver().commit(task)).toBe('ok');
    const { task: failing } = await driver().running(makeEnvelope({ name }));
    for (let times = 0; times < 2; times++)
      expect(await driver().fail(failing, { delayMs: null })).toBe('ok');
    // Another run of the same batch is settled beside one that was settled before.
    const { task: beside } = await driver().running(makeEnvelope({ name }));
    const items = [task, beside].map(ref => driver().commitItem(runRef(ref)));
    expect(await driver().ledger.commit(items)).toEqual(['ok', 'ok']);
    expect(await totalsOf(name)).toEqual({ done: 2, failed: 1, dead: 1 });
  });

  it('count messages, their copies and those that end before they run', async () => {
    const name = unique('tallied');
    const { worker } = await driver().open();
    const envelope = makeEnvelope({ name });
    const { begun } = await driver().begin(worker, { messages: [envelope] });
    await driver().begin(worker, { messages: [envelope] });
    expect(await driver().ledger.commit(begun.map(ref => driver().commitItem(ref)))).toEqual([
      'ok',
    ]);
    await driver().begin(worker, { messages: [envelope] });
    const late = makeEnvelope({ name, expiresMs: (await driver().nowMs()) - MINUTE });
    await driver().begin(worker, { messages: [late] });
    expect(await totalsOf(name)).toEqual({ done: 1, duplicates: 2, expired: 1 });
  });

  it('survive when what they counted is pruned', async () => {
    const name = unique('tallied');
    await driver().done(makeEnvelope({ name }), { dedupMs: MINUTE, resultMs: MINUTE });
    await driver().ledger.prune(10_000);
    expect(await totalsOf(name)).toEqual({ done: 1 });
    await driver().fixture.advance(5 * MINUTE);
    await driver().ledger.prune(10_000);
    await driver().done(makeEnvelope({ name }));
    expect(await totalsOf(name)).toEqual({ done: 2 });
  });
}

function buckets(driver: Get<LedgerDriver>, fixture: Get<LedgerReadsFixture>): void {
  const declare = async (objectives: Readonly<Record<string, Slo | null>>): Promise<string> => {
    const worker = unique('worker');
    const opening = { worker, process: worker, host: 'host-1', pid: 1, leaseMs: HOUR };
    await driver().ledger.open({ ...opening, objectives });
    return worker;
  };
  const objectiveOf = async (name: string): Promise<Objective | undefined> =>
    (await fixture().reads.objectives()).objectives.find(one => one.name === name);
  const sumOf = async (name: string, figure: string): Promise<number> =>
    ((await objectiveOf(name))?.buckets ?? [])
      .filter(bucket => bucket.figure === figure)
      .reduce((sum, { count }) => sum + count, 0);

  it('are kept for tasks with an objective, and by the clock of the store', async () => {
    const [name, without] = [unique('promised'), unique('unpromised')];
    const worker = await declare({ [name]: SLO, [without]: null });
    for (const task of [name, without]) {
      await driver().dead(makeEnvelope({ name: task }));
      await driver().done(makeEnvelope({ name: task }));
      const envelope = makeEnvelope({ name: task });
      const { begun } = await driver().begin(worker, { messages: [envelope] });
      await driver().ledger.commit(begun.map(ref => driver().commitItem(ref)));
    }
    expect(await objectiveOf(without)).toBeUndefined();
    const { slo, buckets: found } = (await objectiveOf(name)) ?? { slo: null, buckets: [] };
    expect(slo).toEqual(SLO);
    expect(await sumOf(name, 'done')).toBe(2);
    expect(await sumOf(name, 'dead')).toBe(1);
    const { nowMs } = await fixture().reads.objectives();
    for (const { startMs } of found) {
      expect(startMs % MINUTE).toBe(0);
      expect(Math.abs(nowMs - startMs)).toBeLessThan(5 * MINUTE);
    }
  });

  it('count what was done late, from its creation or eta to its end', async () => {
    const name = unique('promised');
    await declare({ [name]: SLO });
    const slow = await driver().running(makeEnvelope({ name }));
    await driver().fixture.advance(11 * MINUTE);
    await driver().fail(slow.task);
    const again = await driver().beginWaiting(slow.envelope);
    // Repeated: it was late once.
    for (let times = 0; times < 2; times++) expect(await driver().commit(again.task)).toBe('ok');
    const etaMs = (await driver().nowMs()) + MINUTE;
    const planned = makeEnvelope({ name, etaMs });
    await driver().ledger.park([{ envelope: planned, delayMs: 0 }]);
    const { task } = await driver().beginWaiting(planned);
    await driver().commit(task);
    expect(await sumOf(name, 'slow')).toBe(1);
    expect(await sumOf(name, 'done')).toBe(2);
  });

  it('count ends that no worker sees, and no message that was never a task', async () => {
    const name = unique('promised');
    await declare({ [name]: SLO });
    const { worker } = await driver().running(makeEnvelope({ name }), { crashBudgets: { '*': 0 } });
    expect((await driver().crash(worker)).buried).toHaveLength(1);
    const envelope = makeEnvelope({ name });
    const error = { type: 'E', message: 'unreadable', traceback: '' };
    await driver().ledger.bury([{ kind: 'message', envelope, reason: 'ERR_UNDECODABLE', error }]);
    expect(await sumOf(name, 'dead')).toBe(1);
  });

  it('become hours when they are old, then only totals; and end with the objective', async () => {
    const name = unique('promised');
    await declare({ [name]: SLO });
    for (let minutes = 0; minutes < 2; minutes++) {
      await driver().done(makeEnvelope({ name }));
      await driver().ledger.prune(10_000);
      await driver().fixture.advance(MINUTE);
    }
    expect((await objectiveOf(name))?.buckets.length).toBeGreaterThanOrEqual(2);
    await driver().fixture.advance(9 * HOUR);
    await driver().ledger.prune(10_000);
    const hours = (await objectiveOf(name))?.buckets ?? [];
    // Two, if the hour ended between the two minutes.
    expect(hours.every(({ startMs }) => startMs % HOUR === 0)).toBe(true);
    expect(await sumOf(name, 'done')).toBe(2);
    await driver().fixture.advance(76 * HOUR);
    await driver().ledger.prune(10_000);
    expect((await objectiveOf(name))?.buckets).toEqual([]);
    await driver().done(makeEnvelope({ name }));
    await declare({ [name]: null });
    expect(await objectiveOf(name)).toBeUndefined();
    await declare({ [name]: SLO });
    await driver().ledger.prune(10_000);
    const found = (await fixture().reads.totals()).filter(row => row.name === name);
    expect(found.reduce((sum, { counts }) => sum + (counts.done ?? 0), 0)).toBe(3);
  });

  it('far ahead of the clock were never right, and go to the totals', async () => {
    const name = unique('promised');
    await declare({ [name]: SLO });
    await driver().done(makeEnvelope({ name }));
    // The clock is set back by two hours.
    await driver().fixture.advance(-2 * HOUR);
    await driver().ledger.prune(10_000);
    expect((await objectiveOf(name))?.buckets).toEqual([]);
    await driver().fixture.advance(2 * HOUR);
  });
}
