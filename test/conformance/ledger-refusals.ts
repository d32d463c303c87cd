import { describe, expect, it } from 'vitest';
import {
  plainEnvelope,
  HOUR,
  ids,
  makeEnvelope,
  makeEnvelopes,
  MINUTE,
  unique,
} from './envelopes.ts';
import type { RefusedTask } from '../../src/ledger/ledger.ts';
import { sampleError, type LedgerDriver } from './ledger-driver.ts';

const MINE = { mine: 1 };

export function refusalSuite(driver: () => LedgerDriver): void {
  describe('a task that a worker cannot run', () => choosing(driver));
  describe('tasks that were set aside', () => settingAside(driver));
}

function choosing(driver: () => LedgerDriver): void {
  it('is left to a worker that can, and reported once', async () => {
    const queue = unique('queue');
    const [mine, foreign] = [makeEnvelope({ queue, name: 'mine' }), makeEnvelope({ queue })];
    await driver().put(foreign, mine);
    const { worker } = await driver().open();
    const asked = { queues: [queue], limit: 5, runnable: MINE };
    const reply = await driver().begin(worker, asked);
    expect(ids(reply.begun)).toEqual([mine.id]);
    expect(ids(reply.refused)).toEqual([foreign.id]);
    const again = await driver().begin(worker, asked);
    expect([again.begun, again.refused, again.nextDueMs]).toEqual([[], [], null]);
    expect(await driver().state(foreign.id)).toBe('waiting');
    const { worker: other } = await driver().open();
    const runnable = { [foreign.name]: 1 };
    const { begun } = await driver().begin(other, { ...asked, runnable });
    expect(begun.map(({ envelope }) => plainEnvelope(envelope))).toEqual([plainEnvelope(foreign)]);
  });

  it('does not block the tasks behind it, however many there are', async () => {
    const queue = unique('queue');
    await driver().put(...makeEnvelopes(300, { queue }));
    const mine = makeEnvelope({ queue, name: 'mine' });
    await driver().put(mine);
    const { worker } = await driver().open();
    let asked = 0;
    for (let begun: string[] = []; !begun.includes(mine.id); asked += 1) {
      if (asked === 5) throw new Error('it is still not begun');
      begun = ids(
        (await driver().begin(worker, { queues: [queue], limit: 1, runnable: MINE })).begun,
      );
    }
  });

  it('may be one whose payload is newer than the handler', async () => {
    const [older, newer] = makeEnvelopes(2, { queue: unique('queue'), name: 'mine', version: 2 });
    if (older === undefined || newer === undefined) throw new Error('two were asked for');
    await driver().put(older);
    const { worker } = await driver().open();
    const asked = { queues: [older.queue], limit: 1 };
    expect((await driver().begin(worker, { ...asked, runnable: { mine: 1 } })).begun).toEqual([]);
    const { begun } = await driver().begin(worker, { ...asked, runnable: { mine: 2 } });
    expect(ids(begun)).toEqual([older.id]);
  });

  it('is begun when its message reaches a worker that can run it', async () => {
    const foreign = makeEnvelope();
    const { worker } = await driver().open();
    await driver().ledger.park([{ envelope: foreign, delayMs: 0, refusedBy: worker }]);
    const { answers, begun } = await driver().begin(worker, { messages: [foreign] });
    expect([answers, ids(begun)]).toEqual([['begun'], [foreign.id]]);
    expect(await refused(foreign.id)).toBeUndefined();
    expect(await driver().commit(begun[0] as never)).toBe('ok');
  });

  it('waits until it is due', async () => {
    const foreign = makeEnvelope({ name: 'mine' });
    const { worker } = await driver().open();
    await driver().ledger.park([{ envelope: foreign, delayMs: HOUR, refusedBy: worker }]);
    const asked = { queues: [foreign.queue], limit: 1, runnable: MINE };
    expect((await driver().begin(worker, asked)).begun).toEqual([]);
    await driver().fixture.advance(HOUR + MINUTE);
    const { worker: later } = await driver().open();
    expect(ids((await driver().begin(later, asked)).begun)).toEqual([foreign.id]);
  });

  it.each([0, 1])(
    'is set aside when it is a suspect as well, also by a worker that may take %i suspects',
    async suspects => {
      const foreign = await driver().suspect(makeEnvelope());
      const { worker } = await driver().open();
      const asked = { queues: [foreign.queue], limit: 5, suspects };
      const reply = await driver().begin(worker, { ...asked, runnable: MINE });
      expect([reply.begun, ids(reply.refused)]).toEqual([[], [foreign.id]]);
      expect((await driver().begin(worker, { ...asked, runnable: MINE })).nextDueMs).toBeNull();
      await driver().fixture.advance(5 * MINUTE);
      const found = await refused(foreign.id);
      expect(found).toMatchObject({ worker, isBegun: true });
      expect(found?.waitedMs).toBeGreaterThanOrEqual(5 * MINUTE - 1);
      const { refusals } = driver().ledger;
      expect(await refusals.bury(foreign.id, sampleError('nobody runs it'))).toBe('ok');
      expect(await driver().state(foreign.id)).toBe('dead');
    },
  );

  it('runs beside no other suspect, and blocks no other task', async () => {
    const [queue, name] = [unique('queue'), unique('task')];
    const suspected = [];
    for (const envelope of makeEnvelopes(3, { queue, name }))
      suspected.push((await driver().suspect(envelope)).id);
    const healthy = makeEnvelope({ queue, name });
    const { worker } = await driver().open();
    const asked = { queues: [queue], limit: 5, suspects: 1 };
    for (let left = 3; left > 0;)
      left -= (await driver().begin(worker, { ...asked, runnable: MINE })).refused.length;
    await driver().ledger.park([{ envelope: healthy, delayMs: 0, refusedBy: worker }]);
    const { worker: able } = await driver().open();
    const runnable = { [name]: 1 };
    const none = await driver().begin(able, { ...asked, limit: 1, suspects: 0, runnable });
    expect(ids(none.begun)).toEqual([healthy.id]);
    const one = await driver().begin(able, { ...asked, runnable });
    expect(ids(one.begun)).toHaveLength(1);
    expect(suspected).toContain(one.begun[0]?.id);
    expect(one.begun[0]).toMatchObject({ isSuspect: true });
  });

  const refused = (id: string) => findRefused(driver(), id);
}

/** Searches all pages. */
async function findRefused({ ledger }: LedgerDriver, id: string): Promise<RefusedTask | undefined> {
  for (let after: string | undefined; ;) {
    const { tasks, next } = await ledger.refusals.list(10_000, after);
    const found = tasks.find(({ envelope }) => envelope.id === id);
    if (found !== undefined || next === null) return found;
    after = next;
  }
}

function settingAside(driver: () => LedgerDriver): void {
  const aside = async (making = {}) => {
    const { worker } = await driver().open();
    const envelope = makeEnvelope(making);
    await driver().ledger.park([{ envelope, delayMs: 0, refusedBy: worker }]);
    return { worker, envelope };
  };
  const listed = (id: string) => findRefused(driver(), id);

  it('are listed with the worker that set them aside and for how long', async () => {
    const { worker, envelope } = await aside();
    await driver().fixture.advance(5 * MINUTE);
    const found = await listed(envelope.id);
    expect(found).toMatchObject({ worker, isBegun: false });
    expect(found?.waitedMs).toBeGreaterThanOrEqual(5 * MINUTE - 1);
    expect(plainEnvelope(found?.envelope as never)).toEqual(plainEnvelope(envelope));
  });

  it('are all listed page by page, also behind tasks that are not due, and none is skipped', async () => {
    const { worker } = await driver().open();
    const [queue, early] = [unique('queue'), makeEnvelopes(5, { queue: unique('queue') })];
    const due = makeEnvelopes(7, { queue });
    const { ledger } = driver();
    await ledger.park(early.map(envelope => ({ envelope, delayMs: HOUR, refusedBy: worker })));
    await ledger.park(due.map(envelope => ({ envelope, delayMs: 0, refusedBy: worker })));
    const seen: string[] = [];
    for (let after: string | undefined, pages = 0; ; pages += 1) {
      if (pages === 10_000) throw new Error('there is no last page');
      const { tasks, next } = await ledger.refusals.list(3, after);
      const mine = tasks.filter(({ envelope }) => envelope.queue === queue);
      seen.push(...mine.map(({ envelope }) => envelope.id));
      // A task that leaves between two pages, even the last one of a page, must not make the list skip another.
      const last = mine.at(-1);
      if (last) await ledger.refusals.handBack(last.envelope.id, last.mark);
      if (next === null) break;
      after = next;
    }
    expect(new Set(seen)).toEqual(new Set(ids(due)));
  });

  it('are buried once, and can be revived', async () => {
    const { worker, envelope } = await aside({ embed: '{"errbacks":[{"task":"tell"}]}' });
    const { refusals } = driver().ledger;
    expect(await refusals.bury(envelope.id, sampleError('nobody runs it'))).toBe('ok');
    expect(await refusals.bury(envelope.id, sampleError('nobody runs it'))).toBe('stale');
    expect(await listed(envelope.id)).toBeUndefined();
    const letter = await driver().fixture.readModel.showDeadLetter(envelope.id);
    expect(letter).toMatchObject({ reason: 'ERR_TASK_UNKNOWN', error: 'nobody runs it' });
    const after = await driver().ledger.after.list(-1_000, 10_000);
    expect(after.map(({ key }) => key)).toContain(`${envelope.id}/ended:1`);
    expect(await driver().ledger.revive(envelope.id, letter?.version ?? 0)).toBe('ok');
    const asked = { queues: [envelope.queue], limit: 1, runnable: { [envelope.name]: 1 } };
    expect(ids((await driver().begin(worker, asked)).begun)).toEqual([envelope.id]);
    expect(await refusals.bury(envelope.id, sampleError('too late'))).toBe('stale');
    expect(await refusals.bury(unique('task'), sampleError('unknown'))).toBe('absent');
  });

  it('are deleted from the ledger when the broker has them again, unless they were begun', async () => {
    const { worker, envelope } = await aside();
    const { refusals } = driver().ledger;
    const mark = (await listed(envelope.id))?.mark ?? '';
    expect(await refusals.handBack(envelope.id, mark)).toBe('ok');
    expect(await refusals.handBack(envelope.id, mark)).toBe('absent');
    expect(await driver().state(envelope.id)).toBeUndefined();
    const { begun } = await driver().begin(worker, { messages: [envelope] });
    expect(ids(begun)).toEqual([envelope.id]);
    await driver().release(begun[0] as never);
    await driver().begin(worker, { queues: [envelope.queue], limit: 1, runnable: MINE });
    expect(await listed(envelope.id)).toMatchObject({ isBegun: true });
    const begunMark = (await listed(envelope.id))?.mark ?? '';
    expect(await refusals.handBack(envelope.id, begunMark)).toBe('stale');
  });

  it('stay when a copy was parked after they were listed, because its message is acknowledged', async () => {
    const { envelope } = await aside();
    const { ledger } = driver();
    const before = (await listed(envelope.id))?.mark ?? '';
    const { worker: other } = await driver().open();
    await ledger.park([{ envelope, delayMs: 0, refusedBy: other }]);
    expect(await ledger.refusals.handBack(envelope.id, before)).toBe('stale');
    const after = await listed(envelope.id);
    expect(after).toMatchObject({ worker: other });
    expect(await ledger.refusals.handBack(envelope.id, after?.mark ?? '')).toBe('ok');
  });

  it('are cancelled like any other task', async () => {
    const { envelope } = await aside();
    expect(await driver().ledger.cancel(envelope.id)).toBe('ok');
    expect(await listed(envelope.id)).toBeUndefined();
    expect(await driver().state(envelope.id)).toBe('cancelled');
  });
}
