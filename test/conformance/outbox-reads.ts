import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DeadLetterDetails, LetterPageRequest } from '../../src/ledger/dead-letter.ts';
import { cursorAfter } from '../../src/ledger/dead-letter.ts';
import type { OutboxReads } from '../../src/outbox/outbox-reads.ts';
import type { OutboxStore, PurgeRequest } from '../../src/outbox/outbox-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { bytesOf, HOUR, ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';

/** One row, with the columns that a producer may fill besides its envelope. */
export interface RowWriting {
  readonly envelope: Envelope;
  readonly orderingKey?: string;
  readonly parksKey?: boolean;
  /** JSON texts, for the columns of the redacted copies. */
  readonly redacted?: { readonly args: string; readonly kwargs: string };
  readonly rowVersion?: number;
}

/** One outbox under test. It may hold what other tests left behind. */
export interface OutboxReadsFixture {
  readonly store: OutboxStore;
  readonly reads: OutboxReads;
  /** Commits rows in one transaction. */
  write(envelopes: readonly Envelope[]): Promise<void>;
  /** Commits one row. */
  writeRow(row: RowWriting): Promise<void>;
  /** The store's clock. */
  nowMs(): Promise<number>;
  /** Moves the store's clock forward, or shifts every stored time back by as much, those of dead letters too. */
  advance(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

type Current = () => OutboxReadsFixture;

/** What operators see of an outbox, and what they may do about its dead letters. */
export function describeOutboxReads(
  name: string,
  makeFixture: () => Promise<OutboxReadsFixture>,
): void {
  describe(`outbox reads: ${name}`, () => {
    let fixture: OutboxReadsFixture | undefined;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(async () => {
      await fixture?.dispose();
    });
    const current: Current = () => {
      if (fixture === undefined) throw new Error('the fixture has not been made');
      return fixture;
    };
    describe('sample', () => sampling(current));
    describe('rows', () => rows(current));
    describe('dead letters', () => letters(current));
    describe('redacted copies', () => redaction(current));
    describe('replay', () => replay(current));
    describe('purge', () => purging(current));
  });
}

interface Claiming {
  readonly token: string;
  readonly row: string;
}

/** Claims until the row of this task is among the claimed; everything else is given back. */
async function claimRow({ store }: OutboxReadsFixture, task: Envelope): Promise<Claiming> {
  const relay = unique('relay');
  const token = unique('token');
  await store.beat(relay, HOUR);
  const claimed = await store.claim({ relay, token, limit: 10_000, staleMs: HOUR });
  const found = claimed.find(({ envelope }) => envelope.id === task.id);
  const others = claimed.filter(row => row !== found).map(({ row }) => row);
  await store.defer(token, others, 0);
  if (found === undefined) throw new Error(`the row of ${task.id} was not due`);
  return { token, row: found.row };
}

/** Nothing that this version knows is due any more. */
async function publishAll(fixture: OutboxReadsFixture): Promise<void> {
  const { store } = fixture;
  await fixture.advance(100 * HOUR);
  const relay = unique('relay');
  const token = unique('token');
  await store.beat(relay, HOUR);
  for (;;) {
    const claimed = await store.claim({ relay, token, limit: 10_000, staleMs: HOUR });
    if (claimed.length === 0) break;
    await store.settlePublished(
      token,
      claimed.map(({ row }) => row),
    );
  }
}

async function failRow(
  fixture: OutboxReadsFixture,
  task: Envelope,
  failure: { readonly error?: string; readonly delayMs?: number | null } = {},
): Promise<void> {
  const { token, row } = await claimRow(fixture, task);
  const { error = 'no such exchange', delayMs = null } = failure;
  expect(await fixture.store.settleFailed(token, [{ row, error, delayMs }])).toBe(1);
}

/** A row that could not be published. */
async function kill(fixture: OutboxReadsFixture, row: Partial<RowWriting> = {}): Promise<Envelope> {
  const envelope = row.envelope ?? makeEnvelope();
  await fixture.writeRow({ ...row, envelope });
  await failRow(fixture, envelope);
  return envelope;
}

async function shown(fixture: OutboxReadsFixture, id: string): Promise<DeadLetterDetails> {
  const letter = await fixture.reads.showDeadLetter(id);
  if (letter === null) throw new Error(`${id} is no dead letter`);
  return letter;
}

const page = (given: Partial<LetterPageRequest>): LetterPageRequest => ({
  limit: 1_000,
  cursor: null,
  order: 'newest',
  taskName: null,
  ...given,
});

function sampling(current: Current): void {
  it('counts rows by state and queue, and rows in a newer format', async () => {
    const { reads } = current();
    const before = await reads.sample(5);
    const queue = unique('queue');
    const [claimed, ...pending] = makeEnvelopes(3, { queue });
    if (claimed === undefined) return;
    await current().write([claimed, ...pending]);
    const etaMs = (await current().nowMs()) + 20_000 * HOUR;
    await current().writeRow({ envelope: makeEnvelope({ queue, etaMs }), rowVersion: 99 });
    await claimRow(current(), claimed);
    const after = await reads.sample(5);
    expect(after.pending - before.pending).toBe(3);
    expect(after.claimed - before.claimed).toBe(1);
    expect(after.unsupported - before.unsupported).toBe(1);
    expect(after.sent).toBe(before.sent);
    expect(after.queues.find(row => row.queue === queue)).toEqual({ queue, rows: 4 });
  });

  it('reports how long the oldest row has been due; a row with a later eta is not due', async () => {
    const { reads } = current();
    await publishAll(current());
    await current().write([makeEnvelope({ etaMs: (await current().nowMs()) + 10_000 * HOUR })]);
    expect((await reads.sample(0)).oldestPendingMs).toBeNull();
    const task = makeEnvelope();
    await current().write([task]);
    await current().advance(HOUR);
    const { oldestPendingMs } = await reads.sample(0);
    expect(oldestPendingMs).toBeGreaterThanOrEqual(HOUR);
    expect(oldestPendingMs).toBeLessThan(HOUR + 10 * MINUTE);
    await claimRow(current(), task);
    expect((await reads.sample(0)).oldestPendingMs).toBeGreaterThanOrEqual(HOUR);
  });

  it('counts the age of the oldest row from its first moment, whatever was tried since', async () => {
    const { reads, store } = current();
    await publishAll(current());
    const task = makeEnvelope();
    await current().write([task]);
    const first = await claimRow(current(), task);
    await current().advance(25_000);
    await store.defer(first.token, [first.row], MINUTE);
    const deferred = await reads.sample(0);
    expect(deferred.oldestPendingMs).toBeGreaterThanOrEqual(25_000);
    await current().advance(HOUR);
    await failRow(current(), task, { delayMs: 10 * HOUR });
    const failed = await reads.sample(0);
    expect(failed.oldestPendingMs).toBeGreaterThanOrEqual(HOUR + 25_000);
    expect(failed.oldestPendingMs).toBeLessThan(HOUR + 10 * MINUTE);
  });

  it('counts due, scheduled, failed and deferred rows separately', async () => {
    const { reads, store } = current();
    await publishAll(current());
    const before = await reads.sample(0);
    const [failing, putOff, due] = [makeEnvelope(), makeEnvelope(), makeEnvelope()];
    const scheduled = makeEnvelope({ etaMs: (await current().nowMs()) + 10_000 * HOUR });
    await current().write([failing, putOff, due, scheduled]);
    await failRow(current(), failing, { delayMs: HOUR });
    const { token, row } = await claimRow(current(), putOff);
    await store.defer(token, [row], HOUR);
    const after = await reads.sample(0);
    const grown = (figure: 'pending' | 'due' | 'scheduled' | 'backoff' | 'deferred'): number =>
      after[figure] - before[figure];
    expect(grown('pending')).toBe(4);
    expect(grown('due')).toBe(1);
    expect(grown('scheduled')).toBe(1);
    expect(grown('backoff')).toBe(1);
    expect(grown('deferred')).toBe(1);
  });

  it('reports to the relay how long a row has been due, whatever was tried before', async () => {
    const { store } = current();
    await publishAll(current());
    const task = makeEnvelope();
    await current().write([task]);
    const first = await claimRow(current(), task);
    await store.defer(first.token, [first.row], MINUTE);
    await current().advance(HOUR);
    await failRow(current(), task, { delayMs: MINUTE });
    await current().advance(HOUR);
    const claim = { relay: unique('relay'), token: unique('token'), limit: 10_000, staleMs: HOUR };
    await store.beat(claim.relay, HOUR);
    const found = (await store.claim(claim)).find(({ envelope }) => envelope.id === task.id);
    expect(found?.dueMs).toBeGreaterThanOrEqual(2 * HOUR);
    expect(found?.dueMs).toBeLessThan(2 * HOUR + 10 * MINUTE);
  });

  it('includes due rows that only a newer relay can take', async () => {
    const { reads } = current();
    await publishAll(current());
    await current().writeRow({ envelope: makeEnvelope(), rowVersion: 99 });
    await current().advance(HOUR);
    expect((await reads.sample(0)).oldestPendingMs).toBeGreaterThanOrEqual(HOUR);
    expect(await current().store.nextDueMs()).not.toBe(0);
  });

  it('lists the tasks that fail most, rows and dead letters together', async () => {
    const { reads } = current();
    const name = unique('failing');
    const [again, dead] = [makeEnvelope({ name }), makeEnvelope({ name })];
    await current().write([again, dead]);
    await failRow(current(), again, { delayMs: MINUTE });
    await current().advance(2 * MINUTE);
    await failRow(current(), again, { delayMs: HOUR });
    await failRow(current(), dead);
    const { topFailing } = await reads.sample(10_000);
    expect(topFailing.find(row => row.name === name)?.failures).toBe(3);
    expect((await reads.sample(1)).topFailing).toHaveLength(1);
    const sums = topFailing.map(({ failures }) => failures);
    expect(sums).toEqual(sums.toSorted((a, b) => b - a));
  });

  it('counts dead letters', async () => {
    const before = (await current().reads.sample(0)).deadLetters;
    await kill(current());
    expect((await current().reads.sample(0)).deadLetters).toBe(before + 1);
  });
}

function rows(current: Current): void {
  it('are listed oldest first, page by page', async () => {
    const { reads } = current();
    // Falling task ids: rows are listed in the order of the rows, not of the ids.
    const tasks = makeEnvelopes(5).toReversed();
    for (const task of tasks) await current().write([task]);
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const { items, next } = await reads.list({ limit: 2, cursor });
      expect(items.length).toBeLessThanOrEqual(2);
      found.push(...ids(items));
      cursor = next;
    } while (cursor !== null);
    expect(found.filter(id => ids(tasks).includes(id))).toEqual(ids(tasks));
    expect(new Set(found).size).toBe(found.length);
  });

  it('show their identity, their state and their last error', async () => {
    const { reads } = current();
    const envelope = makeEnvelope();
    const writtenMs = await current().nowMs();
    await current().writeRow({ envelope, orderingKey: unique('key') });
    await failRow(current(), envelope, { error: 'unroutable', delayMs: HOUR });
    const { id, name, queue } = envelope;
    const entry = await reads.find(id);
    expect(entry).toMatchObject({ id, name, queue, state: 'pending', retries: 1 });
    expect(entry).toMatchObject({ lastError: 'unroutable', isSupported: true });
    expect(entry?.orderingKey).toMatch(/^key-/);
    expect(Math.abs(Date.parse(entry?.createdAt ?? '') - writtenMs)).toBeLessThan(MINUTE);
    expect(Date.parse(entry?.availableAt ?? '')).toBeGreaterThan(writtenMs + HOUR / 2);
  });

  it('are shown with their bytes, their claim and what stands in front of them', async () => {
    const { reads, store } = current();
    const key = unique('key');
    const options = new TextEncoder().encode('{"tenant":"acme"}');
    const [first, second] = [makeEnvelope({ options }), makeEnvelope()];
    await current().writeRow({ envelope: first, orderingKey: key, parksKey: true });
    await current().writeRow({ envelope: second, orderingKey: key, parksKey: true });
    const waiting = await reads.view(first.id);
    expect(waiting).toMatchObject({ state: 'pending', claims: 0, claimedBy: null, behind: null });
    expect(waiting).toMatchObject({ tenant: 'acme', isRedacted: false, isClaimOver: false });
    expect(bytesOf(waiting?.body)).toEqual(bytesOf(first.body));
    const skewMs = (waiting?.nowMs ?? 0) - (await current().nowMs());
    expect(Math.abs(skewMs)).toBeLessThan(MINUTE);
    const behind = { id: first.id, isParked: false };
    expect((await reads.view(second.id))?.behind).toEqual(behind);
    const { token, row } = await claimRow(current(), first);
    const claimed = await reads.view(first.id);
    expect(claimed).toMatchObject({ state: 'claimed', claims: 1, isClaimOver: false });
    expect(claimed?.claimedBy).toMatch(/^relay-/);
    expect(claimed?.relays).toBeGreaterThan(0);
    await store.settleFailed(token, [{ row, error: 'no such exchange', delayMs: null }]);
    expect((await reads.view(second.id))?.behind).toEqual({ ...behind, isParked: true });
    expect(await reads.view(first.id)).toBeNull();
    const letter = (await reads.listDeadLetters(page({}))).items.find(({ id }) => id === first.id);
    expect(letter).toMatchObject({ tenant: 'acme', orderingKey: key });
    const etaMs = (await current().nowMs()) + HOUR;
    const later = makeEnvelope({ etaMs });
    await current().writeRow({ envelope: later });
    expect(Date.parse((await reads.view(later.id))?.etaAt ?? '')).toBe(Math.floor(etaMs));
  });

  it('in a newer format are marked as unsupported', async () => {
    const envelope = makeEnvelope();
    await current().writeRow({ envelope, rowVersion: 99 });
    expect((await current().reads.find(envelope.id))?.isSupported).toBe(false);
  });

  it('are found newest first', async () => {
    const tasks = makeEnvelopes(3).toReversed();
    for (const task of tasks) await current().write([task]);
    expect(ids(await current().reads.recent(3))).toEqual(ids(tasks).toReversed());
  });

  it('that do not exist are not found', async () => {
    expect(await current().reads.find(unique('task'))).toBeNull();
  });
}

function letters(current: Current): void {
  it('are listed by time of death in both orders, page by page', async () => {
    const name = unique('listed');
    const tasks: Envelope[] = [];
    for (let n = 0; n < 5; n++) {
      tasks.push(await kill(current(), { envelope: makeEnvelope({ name }) }));
      await current().advance(1_000);
    }
    const walk = async (order: 'newest' | 'oldest'): Promise<string[]> => {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const request = page({ limit: 2, cursor, order, taskName: name });
        const { items, next } = await current().reads.listDeadLetters(request);
        found.push(...ids(items));
        cursor = next;
      } while (cursor !== null);
      return found;
    };
    expect(await walk('newest')).toEqual(ids(tasks).toReversed());
    expect(await walk('oldest')).toEqual(ids(tasks));
  });

  it('can be paged from any letter, even among several of one instant', async () => {
    const name = unique('twins');
    const tasks = makeEnvelopes(4, { name });
    await current().write(tasks);
    const { token, row } = await claimRow(current(), tasks[0] as Envelope);
    await current().store.release(token);
    const relay = unique('relay');
    await current().store.beat(relay, HOUR);
    const claim = { relay, token: unique('token'), limit: 10_000, staleMs: HOUR };
    const claimed = await current().store.claim(claim);
    const mine = claimed.filter(({ envelope }) => envelope.name === name);
    expect(mine.map(entry => entry.row)).toContain(row);
    // One statement buries all four: in some stores they die in the same instant.
    await current().store.settleFailed(
      claim.token,
      mine.map(entry => ({ row: entry.row, error: 'gone', delayMs: null })),
    );
    await current().store.release(claim.token);
    const whole = (await current().reads.listDeadLetters(page({ taskName: name }))).items;
    expect(whole).toHaveLength(4);
    for (const [index, letter] of whole.entries()) {
      const request = page({ taskName: name, cursor: cursorAfter(letter) });
      const rest = (await current().reads.listDeadLetters(request)).items;
      expect(ids(rest)).toEqual(ids(whole).slice(index + 1));
    }
  });

  it('are filtered by a glob, in which only * and ? are special', async () => {
    const stem = unique('glob');
    const [order, other] = [`${stem}.order`, `${stem}_order`];
    for (const name of [order, other]) await kill(current(), { envelope: makeEnvelope({ name }) });
    const named = async (taskName: string): Promise<string[]> =>
      (await current().reads.listDeadLetters(page({ taskName }))).items.map(({ name }) => name);
    expect(await named(`${stem}.*`)).toEqual([order]);
    expect(await named(`${stem}_*`)).toEqual([other]);
    expect((await named(`${stem}?order`)).toSorted()).toEqual([order, other]);
    expect(await named(`${stem}%`)).toEqual([]);
    expect(await named(stem)).toEqual([]);
    expect(await named(`${stem.toUpperCase()}*`)).toEqual([]);
  });

  it('keep every failure with the time that the store gave it', async () => {
    const task = makeEnvelope({ expiresMs: (await current().nowMs()) + 100 * HOUR });
    await current().write([task]);
    const startMs = await current().nowMs();
    await failRow(current(), task, { error: 'first', delayMs: 0 });
    await failRow(current(), task, { error: 'a "quoted" \\ second\nline', delayMs: 0 });
    await failRow(current(), task, { error: 'last' });
    const letter = await shown(current(), task.id);
    expect(letter).toMatchObject({ where: 'relay', error: 'last', reason: 'ERR_ATTEMPTS_SPENT' });
    expect(letter.history.map(({ step, error }) => [step, error?.message])).toEqual([
      ['failed', 'first'],
      ['failed', 'a "quoted" \\ second\nline'],
      ['dead', 'last'],
    ]);
    const instants = letter.history.map(({ at }) => Date.parse(at));
    expect(instants).toEqual(instants.toSorted((a, b) => a - b));
    expect(instants[0]).toBeGreaterThanOrEqual(startMs - 1);
    expect(instants[2]).toBeLessThanOrEqual((await current().nowMs()) + 1);
    expect(Math.abs(Date.parse(letter.createdAt) - startMs)).toBeLessThan(MINUTE);
    expect(Date.parse(letter.expiresAt ?? '')).toBe(task.expiresMs);
    expect(letter.deadAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z$/);
  });
}

const TEXT = new TextDecoder();

function redaction(current: Current): void {
  const secret = new TextEncoder().encode('["4242 4242 4242 4242"]');
  const redacted = { args: '["****"]', kwargs: '{"card":"hidden"}' };

  it('are shown instead of the arguments', async () => {
    const envelope = makeEnvelope({ args: secret });
    await kill(current(), { envelope, redacted });
    const letter = await shown(current(), envelope.id);
    expect(letter.isRedacted).toBe(true);
    expect(TEXT.decode(letter.body)).toBe('[["****"],{"card":"hidden"},null]');
    expect(JSON.stringify(letter)).not.toContain('4242');
  });

  it('leave out follow-up tasks, unless these have a redacted copy too', async () => {
    const step = (arg: string): string =>
      `{"callbacks":[{"task":"x","args":["${arg}"],"kwargs":{},"options":{},"immutable":false}],"chain":null}`;
    for (const copy of [undefined, step('****')]) {
      const travelled = copy === undefined ? {} : { redacted: { ...redacted, embed: copy } };
      const options = { headers: { region: 'eu' }, ...travelled };
      const envelope = makeEnvelope({
        embed: step('4242'),
        options: new TextEncoder().encode(JSON.stringify(options)),
      });
      await kill(current(), { envelope, redacted });
      const letter = await shown(current(), envelope.id);
      expect(JSON.parse(TEXT.decode(letter.options))).toEqual({ headers: { region: 'eu' } });
      expect(JSON.parse(TEXT.decode(letter.body))).toMatchObject({
        2: copy === undefined ? null : (JSON.parse(copy) as object),
      });
      expect(TEXT.decode(letter.body)).not.toContain('4242');
    }
  });

  it('hide the arguments when they are not valid JSON', async () => {
    const envelope = makeEnvelope({ args: secret });
    // As text that is not JSON it would break the body it is put into.
    await kill(current(), { envelope, redacted: { args: '["****"', kwargs: '{}' } });
    const letter = await shown(current(), envelope.id);
    expect(TEXT.decode(letter.body)).toBe('["[hidden]",{},null]');
  });

  it('in the options are used as well', async () => {
    const options = new TextEncoder().encode(JSON.stringify({ redacted }));
    const envelope = makeEnvelope({ args: secret, options });
    await kill(current(), { envelope });
    expect(TEXT.decode((await shown(current(), envelope.id)).body)).toContain('****');
  });

  it('do not change what is published', async () => {
    const envelope = makeEnvelope({ args: secret });
    await kill(current(), { envelope, redacted });
    const { version } = await shown(current(), envelope.id);
    expect(await current().store.reviveDeadLetter(envelope.id, version)).toBe('ok');
    const { store } = current();
    const relay = unique('relay');
    await store.beat(relay, HOUR);
    const token = unique('token');
    const claimed = await store.claim({ relay, token, limit: 10_000, staleMs: HOUR });
    const row = claimed.find(entry => entry.envelope.id === envelope.id);
    expect(bytesOf(row?.envelope.body)).toEqual(bytesOf(envelope.body));
    await store.release(token);
    await failRow(current(), envelope);
    expect((await shown(current(), envelope.id)).isRedacted).toBe(true);
  });
}

function replay(current: Current): void {
  it('is recorded in the history', async () => {
    const task = await kill(current());
    const { version } = await shown(current(), task.id);
    await current().store.reviveDeadLetter(task.id, version);
    await failRow(current(), task, { error: 'again' });
    const { history } = await shown(current(), task.id);
    expect(history.map(({ step }) => step)).toEqual(['dead', 'revived', 'dead']);
    expect(history.every(({ at }) => !Number.isNaN(Date.parse(at)))).toBe(true);
  });

  it('is refused after the task has expired', async () => {
    const expiresMs = (await current().nowMs()) + HOUR;
    const task = await kill(current(), { envelope: makeEnvelope({ expiresMs }) });
    const { version } = await shown(current(), task.id);
    await current().advance(2 * HOUR);
    expect(await current().store.reviveDeadLetter(task.id, version)).toBe('expired');
    expect(await current().reads.find(task.id)).toBeNull();
    expect((await shown(current(), task.id)).version).toBe(version);
  });
}

const purge = (given: Partial<PurgeRequest>): PurgeRequest => ({
  olderThanDeadMs: null,
  olderThanCreatedMs: null,
  taskName: null,
  limit: 1_000,
  isDryRun: false,
  ...given,
});

function purging(current: Current): void {
  const left = async (taskName: string): Promise<string[]> =>
    ids((await current().reads.listDeadLetters(page({ taskName, order: 'oldest' }))).items);

  it('deletes old dead letters, and nothing younger', async () => {
    const name = unique('purged');
    const old = await kill(current(), { envelope: makeEnvelope({ name }) });
    await current().advance(2 * HOUR);
    const young = await kill(current(), { envelope: makeEnvelope({ name }) });
    const request = purge({ olderThanDeadMs: HOUR, taskName: name });
    expect(await current().store.purgeDeadLetters(request)).toEqual({
      counts: [{ name, count: 1 }],
    });
    expect(await left(name)).toEqual([young.id]);
    expect(await current().reads.showDeadLetter(old.id)).toBeNull();
    expect(await current().store.purgeDeadLetters(request)).toEqual({ counts: [] });
  });

  it('deletes by age since creation; where both ages are given, both must hold', async () => {
    const name = unique('purged');
    const task = makeEnvelope({ name });
    await current().write([task]);
    await current().advance(3 * HOUR);
    await failRow(current(), task);
    const both = purge({ olderThanDeadMs: HOUR, olderThanCreatedMs: 2 * HOUR, taskName: name });
    expect((await current().store.purgeDeadLetters(both)).counts).toEqual([]);
    const created = purge({ olderThanCreatedMs: 2 * HOUR, taskName: name });
    expect((await current().store.purgeDeadLetters(created)).counts).toEqual([{ name, count: 1 }]);
  });

  it('counts by task, and deletes only what matches the glob', async () => {
    const stem = unique('purged');
    for (const name of [`${stem}.b`, `${stem}.a`, `${stem}.a`, `${stem}_c`]) {
      await kill(current(), { envelope: makeEnvelope({ name }) });
    }
    await current().advance(HOUR);
    const request = purge({ olderThanDeadMs: MINUTE, taskName: `${stem}.?` });
    expect(await current().store.purgeDeadLetters(request)).toEqual({
      counts: [
        { name: `${stem}.a`, count: 2 },
        { name: `${stem}.b`, count: 1 },
      ],
    });
    expect(await left(`${stem}*`)).toHaveLength(1);
  });

  it('deletes the oldest first, up to the limit; a dry run counts all and deletes none', async () => {
    const name = unique('purged');
    const tasks: Envelope[] = [];
    for (let n = 0; n < 3; n++) {
      tasks.push(await kill(current(), { envelope: makeEnvelope({ name }) }));
      await current().advance(MINUTE);
    }
    const request = purge({ olderThanDeadMs: 0, taskName: name, limit: 2 });
    const dry = await current().store.purgeDeadLetters({ ...request, isDryRun: true });
    expect(dry).toEqual({ counts: [{ name, count: 3 }] });
    expect(await left(name)).toHaveLength(3);
    await current().store.purgeDeadLetters(request);
    expect(await left(name)).toEqual([tasks[2]?.id]);
  });

  it('frees the ordering key that a dead letter parked', async () => {
    const orderingKey = unique('key');
    const name = unique('purged');
    const head = makeEnvelope({ name });
    const behind = makeEnvelope();
    await current().writeRow({ envelope: head, orderingKey, parksKey: true });
    await current().writeRow({ envelope: behind, orderingKey, parksKey: true });
    await failRow(current(), head);
    await expect(claimRow(current(), behind)).rejects.toThrow('was not due');
    await current().advance(HOUR);
    await current().store.purgeDeadLetters(purge({ olderThanDeadMs: MINUTE, taskName: name }));
    await expect(claimRow(current(), behind)).resolves.toBeDefined();
  });
}
