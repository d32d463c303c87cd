import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeadLetterDetails, LetterPageRequest } from '../../src/ledger/dead-letter.ts';
import type { LedgerReads } from '../../src/ledger/ledger-reads.ts';
import type { ChordPart } from '../../src/ledger/ledger.ts';
import type { OpenChord } from '../../src/ledger/open-chord.ts';
import type { Position, Slice, TaskLine, WalkRequest } from '../../src/ledger/task-line.ts';
import type { PurgeRequest } from '../../src/outbox/outbox-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';
import { LedgerDriver, type LedgerFixture } from './ledger-driver.ts';

/** One ledger under test. It may hold what other tests left behind. */
export interface LedgerReadsFixture extends LedgerFixture {
  readonly reads: LedgerReads;
  /** Called with messages that are about to be sent, where chords are registered by that. */
  readonly announce?: (messages: readonly Envelope[]) => Promise<void>;
}

interface Parts {
  readonly reads: LedgerReads;
  readonly announce: LedgerReadsFixture['announce'];
  readonly driver: LedgerDriver;
}

type Current = () => Parts;

/** What operators see of a ledger, and what they may do about its dead letters. */
export function describeLedgerReads(
  name: string,
  makeFixture: () => Promise<LedgerReadsFixture>,
): void {
  describe(`ledger reads: ${name}`, () => {
    let fixture: LedgerReadsFixture | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });
    const current: Current = () => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      const { reads, announce } = fixture;
      return { reads, announce, driver: new LedgerDriver(fixture) };
    };
    describe('sample', () => sampling(current));
    describe('dead tasks', () => deadTasks(current));
    describe('moments', () => moments(current));
    describe('tasks', () => taskLists(current));
    describe('purge', () => purging(current));
    describe('open chords', () => openChords(current));
  });
}

const page = (given: Partial<LetterPageRequest>): LetterPageRequest => ({
  limit: 1_000,
  cursor: null,
  order: 'newest',
  taskName: null,
  ...given,
});

const purge = (given: Partial<PurgeRequest>): PurgeRequest => ({
  olderThanDeadMs: null,
  olderThanCreatedMs: null,
  taskName: null,
  limit: 1_000,
  isDryRun: false,
  ...given,
});

async function shown({ reads }: Parts, id: string): Promise<DeadLetterDetails> {
  const letter = await reads.showDead(id);
  if (letter === null) throw new Error(`${id} is not dead`);
  return letter;
}

function openChords(current: Current): void {
  const part = (groupId: string, index: number, result: string | null): ChordPart => ({
    groupId,
    index,
    size: 3,
    taskId: `${groupId}-${index}`,
    result,
  });
  const own = async (groups: readonly string[]): Promise<readonly OpenChord[]> =>
    (await current().reads.openChords(1_000)).oldest.filter(({ groupId }) =>
      groups.includes(groupId),
    );

  it('are listed with the parts they have and their size, oldest first', async () => {
    const { reads, driver } = current();
    // Complete, and its body is not sent yet: it hides no other chord.
    const complete = unique('complete');
    for (const index of [0, 1, 2]) await driver.ledger.joinChord(part(complete, index, '1'));
    await driver.fixture.advance(MINUTE);
    const before = (await reads.openChords(0)).open;
    const [first, second, endless, whole] = ['a', 'b', 'c', 'd'].map(unique) as [
      string,
      string,
      string,
      string,
    ];
    await driver.ledger.joinChord(part(first, 1, '1'));
    await driver.ledger.joinChord(part(first, 2, null));
    await driver.fixture.advance(HOUR);
    await driver.ledger.joinChord(part(second, 0, '1'));
    await driver.fixture.advance(MINUTE);
    await driver.ledger.joinChord({ ...part(endless, 0, '1'), size: null });
    for (let index = 0; index < 3; index++) await driver.ledger.joinChord(part(whole, index, '1'));
    await driver.ledger.closeChord?.(whole);
    const found = await own([first, second, endless, whole]);
    expect(found).toMatchObject([
      { groupId: first, parts: 1, size: 3, failed: 1 },
      { groupId: second, parts: 1, size: 3, failed: 0 },
      { groupId: endless, parts: 1, size: null, failed: 0 },
    ]);
    expect(found[0]?.ageMs).toBeGreaterThanOrEqual(HOUR + MINUTE);
    const [sinceFirst, sinceSecond] = found.map(({ since }) => Date.parse(since));
    expect((sinceSecond ?? 0) - (sinceFirst ?? 0)).toBeGreaterThanOrEqual(HOUR);
    const { open, oldest } = await reads.openChords(1);
    expect([open - before, oldest.length]).toEqual([3, 1]);
    // Its failed part is replaced by a result, and its last part completes it.
    await driver.ledger.joinChord(part(first, 2, '1'));
    await driver.ledger.joinChord(part(first, 0, '1'));
    expect((await own([first, second])).map(({ groupId }) => groupId)).toEqual([second]);
    await driver.ledger.closeChord?.(first);
    expect((await reads.openChords(1)).open - before).toBe(2);
  });

  it('are listed once from their sending until they end, with the name of their body', async ctx => {
    const { announce, driver } = current();
    if (announce === undefined) return ctx.skip();
    const headerOf = (groupId: string): Envelope => {
      const body = '{"task":"sum","args":[],"kwargs":{},"options":{},"chord_size":3}';
      const options = new TextEncoder().encode(JSON.stringify({ groupId, groupIndex: 0 }));
      const embed = `{"callbacks":null,"errbacks":null,"chain":null,"chord":${body}}`;
      return makeEnvelope({ embed, options });
    };
    const [sent, whole] = ['a', 'b'].map(unique) as [string, string];
    await announce([makeEnvelope(), headerOf(sent), headerOf(sent), headerOf(whole)]);
    expect(await own([sent, whole])).toMatchObject([
      { parts: 0, size: 3, failed: 0, body: 'sum' },
      { parts: 0, size: 3, failed: 0, body: 'sum' },
    ]);
    for (let index = 0; index < 3; index++) await driver.ledger.joinChord(part(whole, index, '1'));
    // The publisher of the header died before it recorded that, and the header is published again.
    await announce([headerOf(sent), headerOf(whole)]);
    expect(await own([sent, whole])).toMatchObject([{ groupId: sent }]);
    await driver.fixture.advance(6 * 24 * HOUR);
    expect(await driver.ledger.abandonChords(1_000)).not.toContain(sent);
    await driver.fixture.advance(25 * HOUR);
    expect(await driver.ledger.abandonChords(1_000)).toContain(sent);
    expect(await own([sent])).toEqual([]);
  });

  it('are forgotten a week after their last part, and completed ones are not reported as abandoned', async () => {
    const { driver } = current();
    const [idle, touched, whole] = ['a', 'b', 'c'].map(unique) as [string, string, string];
    await driver.ledger.joinChord(part(idle, 0, '1'));
    await driver.ledger.joinChord(part(idle, 1, null));
    await driver.ledger.joinChord(part(touched, 0, '1'));
    for (let index = 0; index < 3; index++) await driver.ledger.joinChord(part(whole, index, '1'));
    await driver.fixture.advance(6 * 24 * HOUR);
    await driver.ledger.joinChord(part(touched, 1, '1'));
    const all = [idle, touched, whole];
    const abandon = async () =>
      (await driver.ledger.abandonChords(1_000)).filter(id => all.includes(id));
    expect(await abandon()).toEqual([]);
    await driver.fixture.advance(25 * HOUR);
    expect(await abandon()).toEqual([idle]);
    expect(await abandon()).toEqual([]);
    expect(await own(all)).toMatchObject([{ groupId: touched, parts: 2 }]);
    expect(await driver.ledger.joinChord(part(touched, 2, '1'))).toMatchObject({
      status: 'complete',
    });
    expect(await driver.ledger.joinChord(part(idle, 2, '1'))).toEqual({ status: 'open' });
  });
}

function moments(current: Current): void {
  it('show the worker, progress and due time of living tasks', async () => {
    const { reads, driver } = current();
    const process = unique('process');
    const { worker } = await driver.open({ process });
    const { task } = await driver.running(makeEnvelope(), { worker });
    const progress = new TextEncoder().encode('{"step":1}');
    await driver.ledger.checkpoint(task, 1, progress);
    const later = makeEnvelope();
    const nowMs = await driver.nowMs();
    await driver.ledger.park([{ envelope: later, delayMs: HOUR }]);
    const dead = await driver.dead();
    const done = await driver.done();
    const asked = [task.id, later.id, dead.id, done.id, 'unknown'];
    const found = new Map((await reads.moments(asked)).map(moment => [moment.id, moment]));
    expect([...found.keys()].toSorted()).toEqual([task.id, later.id, dead.id].toSorted());
    expect(found.get(task.id)).toMatchObject({ process, checkpoint: progress });
    expect(found.get(later.id)).toMatchObject({ process: null, checkpoint: null });
    expect(found.get(later.id)?.dueMs).toBeGreaterThanOrEqual(nowMs + HOUR);
    expect(found.get(dead.id)).toMatchObject({
      version: (await shown(current(), dead.id)).version,
    });
  });
}

/** Reads a whole list in slices of two, and returns those of these tasks in the order of the list. */
async function walked(
  { reads }: Parts,
  request: Pick<WalkRequest, 'section' | 'queue'>,
  own: readonly string[],
): Promise<TaskLine[]> {
  const found: TaskLine[] = [];
  let after: Position | null = null;
  for (;;) {
    const slice: Slice = await reads.walk({ ...request, after, limit: 2 });
    expect(slice.length).toBeLessThanOrEqual(2);
    found.push(...slice.map(({ task }) => task));
    if (slice.length < 2) break;
    after = slice.at(-1)?.at ?? null;
  }
  expect(new Set(ids(found)).size).toBe(found.length);
  return found.filter(({ id }) => own.includes(id));
}

const forTenant = new TextEncoder().encode('{"tenant":"acme"}');

function taskLists(current: Current): void {
  it('that wait are listed queue by queue, with those set aside and those that crash workers', async () => {
    const { driver } = current();
    const queue = unique('queue');
    const plain = makeEnvelopes(3, { queue, options: forTenant });
    await driver.put(...plain);
    const later = makeEnvelope({ queue });
    await driver.ledger.park([{ envelope: later, delayMs: HOUR }]);
    const unknown = makeEnvelope({ queue });
    await driver.ledger.park([{ envelope: unknown, delayMs: 0, refusedBy: 'worker-1' }]);
    const other = makeEnvelope();
    await driver.put(other);
    const own = ids([...plain, later, unknown, other]);
    const ofQueue = await walked(current(), { section: 'waiting', queue }, own);
    expect(ids(ofQueue).toSorted()).toEqual(own.slice(0, -1).toSorted());
    expect(ids(ofQueue).filter(id => ids(plain).includes(id))).toEqual(ids(plain));
    expect(ofQueue.find(({ id }) => id === plain[0]?.id)).toMatchObject({
      name: 'conformance.task',
      queue,
      state: 'waiting',
      tenant: 'acme',
      worker: null,
    });
    const dueMs = Date.parse(ofQueue.find(({ id }) => id === later.id)?.dueAt ?? '');
    expect(dueMs).toBeGreaterThan((await driver.nowMs()) + HOUR / 2);
    const all = await walked(current(), { section: 'waiting', queue: null }, own);
    expect(ids(all).toSorted()).toEqual(own.toSorted());
  });

  it('that run are listed with their worker, their epoch and the time they began', async () => {
    const { driver } = current();
    const running = [await driver.running(), await driver.running(), await driver.running()];
    const own = running.map(({ task }) => task.id);
    const found = await walked(current(), { section: 'running', queue: null }, own);
    expect(ids(found).toSorted()).toEqual(own.toSorted());
    for (const { task, worker } of running) {
      const line = found.find(({ id }) => id === task.id);
      expect(line).toMatchObject({ state: 'running', worker, epoch: task.epoch });
      const sinceMs = (await driver.nowMs()) - Date.parse(line?.startedAt ?? '');
      expect(Math.abs(sinceMs)).toBeLessThan(MINUTE);
    }
  });

  it('that are over are listed, and those that are dead are not', async () => {
    const { driver } = current();
    const done = [await driver.done(), await driver.done(), await driver.done()];
    const gone = makeEnvelope();
    await driver.put(gone);
    await driver.ledger.cancel(gone.id);
    const dead = await driver.dead();
    const own = ids([...done, gone, dead]);
    const found = await walked(current(), { section: 'over', queue: null }, own);
    expect(ids(found).toSorted()).toEqual(own.slice(0, -1).toSorted());
    expect(found.find(({ id }) => id === gone.id)?.state).toBe('cancelled');
    expect(found.every(({ endedAt }) => endedAt !== null)).toBe(true);
  });

  it('are refused a cursor that is none', async () => {
    const { reads } = current();
    for (const section of ['waiting', 'running', 'over'] as const) {
      const after = ['a', 'b', 'c', 'd', 'e', 'f'];
      const walk = reads.walk({ section, queue: null, after, limit: 1 });
      await expect(walk).rejects.toMatchObject({ code: 'ERR_OPTION_RANGE' });
    }
  });

  it('are shown with bytes, result, reason and history', async () => {
    const { reads, driver } = current();
    const { task, worker, envelope } = await driver.running(makeEnvelope({ options: forTenant }));
    expect(await reads.view(task.id)).toMatchObject({
      state: 'running',
      worker,
      tenant: 'acme',
      isSuspect: false,
      refusedBy: null,
      ending: null,
      isRedacted: false,
    });
    const shownBody = (await reads.view(task.id))?.body;
    expect(Buffer.from(shownBody ?? []).toString()).toBe(Buffer.from(envelope.body).toString());
    const result = new TextEncoder().encode('{"n":1.0}');
    await driver.commit(task, { outcome: { kind: 'done', result } });
    const ended = await reads.view(task.id);
    expect(ended).toMatchObject({ state: 'done', ending: 'done', worker: null, startedAt: null });
    expect(Buffer.from(ended?.result ?? []).toString()).toBe('{"n":1.0}');
    expect(ended?.history.map(({ step }) => step)).toContain('begun');
    expect(Math.abs((ended?.nowMs ?? 0) - (await driver.nowMs()))).toBeLessThan(MINUTE);
    const discarded = await driver.done(makeEnvelope(), {
      outcome: { kind: 'discarded', why: 'nothing to do' },
    });
    expect(await reads.view(discarded.id)).toMatchObject({
      ending: 'discarded',
      error: 'nothing to do',
    });
    const dead = await driver.dead();
    const reason = 'ERR_ATTEMPTS_SPENT';
    expect(await reads.view(dead.id)).toMatchObject({ state: 'dead', reason, error: 'declined' });
    const unknown = makeEnvelope();
    await driver.ledger.park([{ envelope: unknown, delayMs: 0, refusedBy: 'worker-1' }]);
    expect((await reads.view(unknown.id))?.refusedBy).toBe('worker-1');
    expect(await reads.view('no-such-task')).toBeNull();
  });
}

function sampling(current: Current): void {
  it('counts tasks by state, and waiting and running ones by queue', async () => {
    const { reads, driver } = current();
    const before = (await reads.sample(0)).tasks;
    const queue = unique('queue');
    await driver.put(makeEnvelope({ queue }));
    const { worker } = await driver.running(makeEnvelope({ queue: unique('queue') }));
    await driver.dead();
    await driver.done();
    const cancelled = makeEnvelope();
    await driver.ledger.cancel(cancelled.id);
    await driver.expired();
    const { tasks, queues, workers } = await reads.sample(0);
    const grown = Object.entries(tasks).map(([state, count]) => [
      state,
      count - before[state as keyof typeof before],
    ]);
    expect(Object.fromEntries(grown)).toEqual({
      waiting: 1,
      running: 1,
      dead: 1,
      done: 1,
      cancelled: 1,
      expired: 1,
      purged: 0,
    });
    expect(queues.find(row => row.queue === queue)).toEqual({ queue, waiting: 1, running: 0 });
    expect(workers).toBeGreaterThanOrEqual(1);
    await driver.crash(worker);
    expect((await reads.sample(0)).workers).toBe(workers - 1);
  });

  it('returns the states of many tasks at once, and null for unknown ids', async () => {
    const { reads, driver } = current();
    const waiting = makeEnvelope();
    await driver.put(waiting);
    const { envelope: running } = await driver.running();
    const cancelled = unique('task');
    await driver.ledger.cancel(cancelled);
    const [done, dead] = [await driver.done(), await driver.dead()];
    const asked = [unique('task'), waiting.id, running.id, done.id, dead.id, cancelled];
    const states = [null, 'waiting', 'running', 'done', 'dead', 'cancelled'];
    expect(await reads.states(asked)).toEqual(states);
    expect(await reads.states([])).toEqual([]);
  });

  it('still counts pruned tasks', async () => {
    const { reads, driver } = current();
    await driver.done();
    await driver.expired();
    const before = (await reads.sample(0)).tasks;
    await driver.fixture.advance(100 * HOUR);
    while ((await driver.ledger.prune(1_000)) > 0);
    const { done, cancelled, expired, purged } = (await reads.sample(0)).tasks;
    expect({ done, cancelled, expired, purged }).toEqual({
      done: before.done,
      cancelled: before.cancelled,
      expired: before.expired,
      purged: before.purged,
    });
  });

  it('lists the tasks that fail most by failures, crashes, and deaths without either', async () => {
    const { reads, driver } = current();
    const name = unique('failing');
    const { task } = await driver.running(makeEnvelope({ name }));
    await driver.fail(task, { delayMs: HOUR });
    await driver.suspect(makeEnvelope({ name }), 2);
    const { task: buried } = await driver.running(makeEnvelope({ name }));
    await driver.bury(buried);
    const { topFailing } = await reads.sample(100_000);
    expect(topFailing.find(row => row.name === name)?.failures).toBe(4);
    expect((await reads.sample(1)).topFailing).toHaveLength(1);
  });
}

function deadTasks(current: Current): void {
  it('are listed by time of death in both orders, page by page', async () => {
    const { reads, driver } = current();
    const name = unique('listed');
    const tasks: Envelope[] = [];
    for (let n = 0; n < 5; n++) {
      tasks.push(await driver.dead(makeEnvelope({ name })));
      await driver.fixture.advance(1_000);
    }
    const walk = async (order: 'newest' | 'oldest'): Promise<string[]> => {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const request = page({ limit: 2, cursor, order, taskName: name });
        const { items, next } = await reads.listDead(request);
        found.push(...ids(items));
        cursor = next;
      } while (cursor !== null);
      return found;
    };
    expect(await walk('newest')).toEqual(ids(tasks).toReversed());
    expect(await walk('oldest')).toEqual(ids(tasks));
    expect((await reads.listDead(page({ taskName: `${name}?` }))).items).toEqual([]);
  });

  it('show their redacted copies, never the arguments', async () => {
    const redacted = { args: '["****"]', kwargs: '{}' };
    const options = new TextEncoder().encode(JSON.stringify({ redacted, keepResult: false }));
    const args = new TextEncoder().encode('["4242"]');
    const task = await current().driver.dead(makeEnvelope({ args, options }));
    const letter = await shown(current(), task.id);
    expect(letter.isRedacted).toBe(true);
    expect(new TextDecoder().decode(letter.body)).toBe('[["****"],{},null]');
    expect(new TextDecoder().decode(letter.options)).toBe('{"keepResult":false}');
  });

  it('hide all arguments when the redacted copies cannot be read', async () => {
    const args = new TextEncoder().encode('["4242"]');
    const broken = ['{"redacted":{"args":["x"]}}', '{"redacted":null}', '{"redacted":{"args"'];
    for (const text of broken) {
      const options = new TextEncoder().encode(text);
      const task = await current().driver.dead(makeEnvelope({ args, options }));
      const { body } = await shown(current(), task.id);
      expect(new TextDecoder().decode(body)).toBe('["[hidden]","[hidden]",null]');
    }
  });

  it('are not revived after their task has expired', async () => {
    const { driver } = current();
    const expiresMs = (await driver.nowMs()) + HOUR;
    const task = await driver.dead(makeEnvelope({ expiresMs }));
    const { version } = await shown(current(), task.id);
    await driver.fixture.advance(2 * HOUR);
    expect(await driver.ledger.revive(task.id, version)).toBe('expired');
    expect(await driver.state(task.id)).toBe('dead');
  });
}

function purging(current: Current): void {
  it('deletes bytes, errors and history of old dead tasks, and nothing younger', async () => {
    const { reads, driver } = current();
    const name = unique('purged');
    const old = await driver.dead(makeEnvelope({ name }));
    await driver.fixture.advance(2 * HOUR);
    const young = await driver.dead(makeEnvelope({ name }));
    const before = (await reads.sample(0)).tasks;
    const request = purge({ olderThanDeadMs: HOUR, taskName: name });
    const dry = await driver.ledger.purgeDead({ ...request, isDryRun: true });
    expect(dry).toEqual({ counts: [{ name, count: 1 }] });
    expect(await driver.state(old.id)).toBe('dead');
    expect(await driver.ledger.purgeDead(request)).toEqual(dry);
    expect(await reads.showDead(old.id)).toBeNull();
    expect(ids((await reads.listDead(page({ taskName: name }))).items)).toEqual([young.id]);
    const { tasks } = await reads.sample(0);
    expect([tasks.dead, tasks.purged]).toEqual([before.dead - 1, before.purged + 1]);
    const left = await reads.inspect(old.id);
    expect(left?.history.map(({ step }) => step)).toEqual(['purged']);
  });

  it('leaves a tombstone that turns late copies away and cannot be revived', async () => {
    const { driver } = current();
    const name = unique('purged');
    const task = await driver.dead(makeEnvelope({ name }));
    const { version } = await shown(current(), task.id);
    await driver.fixture.advance(MINUTE);
    await driver.ledger.purgeDead(purge({ olderThanDeadMs: 0, taskName: name }));
    expect(await driver.ledger.revive(task.id, version)).toBe('conflict');
    const { worker } = await driver.open();
    const reply = await driver.begin(worker, { messages: [task] });
    expect(reply.answers).toEqual(['held']);
    await driver.put(task);
    expect(await driver.state(task.id)).toBe('cancelled');
  });

  it('deletes the oldest first, up to the limit, of the tasks that match the glob', async () => {
    const { reads, driver } = current();
    const stem = unique('purged');
    const tasks: Envelope[] = [];
    for (const task of makeEnvelopes(3, { name: `${stem}.a` })) {
      tasks.push(await driver.dead(task));
      await driver.fixture.advance(MINUTE);
    }
    await driver.dead(makeEnvelope({ name: `${stem}_a` }));
    await driver.fixture.advance(MINUTE);
    const request = purge({ olderThanDeadMs: 0, taskName: `${stem}.*`, limit: 2 });
    expect((await driver.ledger.purgeDead(request)).counts).toEqual([
      { name: `${stem}.a`, count: 2 },
    ]);
    const rest = (await reads.listDead(page({ taskName: `${stem}*` }))).items;
    expect(rest.map(({ name }) => name).toSorted()).toEqual([`${stem}.a`, `${stem}_a`]);
    expect(ids(rest)).toContain(tasks[2]?.id);
  });

  it('also compares the age since creation', async () => {
    const { driver } = current();
    const name = unique('purged');
    const task = makeEnvelope({ name });
    await driver.put(task);
    await driver.fixture.advance(3 * HOUR);
    const running = await driver.beginWaiting(task);
    await driver.fail(running.task, { delayMs: null });
    const both = purge({ olderThanDeadMs: HOUR, olderThanCreatedMs: HOUR, taskName: name });
    expect((await driver.ledger.purgeDead(both)).counts).toEqual([]);
    const created = purge({ olderThanCreatedMs: HOUR, taskName: name });
    expect((await driver.ledger.purgeDead(created)).counts).toEqual([{ name, count: 1 }]);
  });
}
