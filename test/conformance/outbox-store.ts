import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ReadModel } from '../../src/admin/read-model.ts';
import { endedKey, type Ledger } from '../../src/ledger/ledger.ts';
import type { OutboxRow, OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import {
  AWKWARD_BYTES,
  bytesOf,
  HOUR,
  ids,
  makeEnvelope,
  makeEnvelopes,
  MINUTE,
  plainEnvelope,
  unique,
} from './envelopes.ts';
import { LedgerDriver } from './ledger-driver.ts';

/** One outbox under test. It may hold what other tests left behind. */
export interface OutboxFixture {
  readonly store: OutboxStore;
  readonly readModel: Pick<ReadModel, 'inspect' | 'showDeadLetter' | 'listDeadLetters'>;
  /** Where `store.move` is not null: the ledger rows are moved to. */
  readonly ledger: Ledger | null;
  /** Writes in one transaction and commits it. `bodyParts` gives what a body is made of. */
  write(envelopes: readonly Envelope[]): Promise<void>;
  writeRolledBack(envelopes: readonly Envelope[]): Promise<void>;
  /** How many of these tasks have a row, claimed or not. */
  countRows(taskIds: readonly string[]): Promise<number>;
  /** The store's clock. */
  nowMs(): Promise<number>;
  /** Moves the store's clock forward, or shifts every stored time back by as much. */
  advance(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

type Current = () => OutboxFixture;

export interface Claim {
  readonly relay: string;
  readonly token: string;
  readonly rows: readonly OutboxRow[];
}

interface Claiming {
  readonly relay?: string;
  readonly limit?: number;
  readonly leaseMs?: number;
  readonly staleMs?: number;
}

/** Claims under a relay that lives long enough for most tests. */
export async function claim(fixture: OutboxFixture, claiming: Claiming = {}): Promise<Claim> {
  const relay = claiming.relay ?? unique('relay');
  const token = unique('token');
  if (claiming.relay === undefined) await fixture.store.beat(relay, claiming.leaseMs ?? 2 * HOUR);
  const { limit = 1_000, staleMs = HOUR } = claiming;
  return { relay, token, rows: await fixture.store.claim({ relay, token, limit, staleMs }) };
}

export const taskIds = (rows: readonly OutboxRow[]): string[] =>
  rows.map(({ envelope }) => envelope.id);
export const rowsOf = (rows: readonly OutboxRow[], ...tasks: readonly Envelope[]): string[] =>
  rows.filter(({ envelope }) => ids(tasks).includes(envelope.id)).map(({ row }) => row);

/** Everything an adapter of the outbox must do. */
export function describeOutboxStore(name: string, makeFixture: () => Promise<OutboxFixture>): void {
  describe(`outbox store: ${name}`, () => {
    const current = useFixture(makeFixture);
    describe('write', () => writing(current));
    describe('claim', () => claimSuite(current));
    describe('settle', () => settling(current));
    describe('dead letters', () => deadLetters(current));
    describe('withdraw', () => withdrawing(current));
    describe('move', () => moving(current));
    describe('large rows', () => largeRows(current));
  });
}

/** One fixture for a suite; rows of other tests are out of the way. */
export function useFixture<F extends OutboxFixture>(makeFixture: () => Promise<F>): () => F {
  let fixture: F | undefined;
  beforeAll(async () => {
    fixture = await makeFixture();
  });
  afterAll(async () => {
    await fixture?.dispose();
  });
  const current = (): F => {
    if (fixture === undefined) throw new Error('the fixture has not been made');
    return fixture;
  };
  beforeEach(async () => {
    // Rows of other tests would count here, so all claims expire and all rows are due.
    await current().advance(100 * HOUR);
    for (;;) {
      const { token, rows } = await claim(current());
      if (rows.length === 0) return;
      await current().store.settlePublished(
        token,
        rows.map(({ row }) => row),
      );
    }
  });
  return current;
}

function writing(current: Current): void {
  it('hands committed rows to the relay, bytes unchanged', async () => {
    const nowMs = await current().nowMs();
    const times = { etaMs: nowMs - MINUTE, expiresMs: nowMs + HOUR };
    const task = makeEnvelope({
      args: AWKWARD_BYTES,
      options: AWKWARD_BYTES,
      priority: 7,
      version: 3,
      ...times,
    });
    await current().write([task]);
    const { rows } = await claim(current());
    expect(rows.map(({ envelope }) => plainEnvelope(envelope))).toEqual([plainEnvelope(task)]);
    expect(rows[0]).toMatchObject({ retries: 0, isFirstClaim: true });
  });

  it('never shows rolled-back rows', async () => {
    const [kept, undone] = [makeEnvelope(), makeEnvelope()];
    await current().writeRolledBack([undone]);
    await current().write([kept]);
    expect(taskIds((await claim(current())).rows)).toEqual([kept.id]);
    expect(await current().countRows([undone.id])).toBe(0);
  });

  it('keeps a row with an eta in the database until then', async () => {
    const task = makeEnvelope({ etaMs: (await current().nowMs()) + 10 * MINUTE });
    await current().write([task]);
    expect(taskIds((await claim(current())).rows)).not.toContain(task.id);
    const waitMs = await current().store.nextDueMs();
    expect(waitMs).not.toBeNull();
    expect(waitMs).toBeLessThanOrEqual(10 * MINUTE);
    await current().advance(11 * MINUTE);
    expect(taskIds((await claim(current())).rows)).toContain(task.id);
  });

  it('makes a row due at once', async () => {
    await current().write([makeEnvelope()]);
    expect(await current().store.nextDueMs()).toBeLessThan(1_000);
  });
}

function claimSuite(current: Current): void {
  it('takes rows up to the limit, the oldest first', async () => {
    const tasks = makeEnvelopes(5);
    for (const task of tasks) await current().write([task]);
    const first = await claim(current(), { limit: 2 });
    expect(taskIds(first.rows).sort()).toEqual(ids(tasks.slice(0, 2)).sort());
    expect((await claim(current(), { limit: 10 })).rows).toHaveLength(3);
  });

  it('is exclusive: concurrent relays share the rows', async () => {
    const tasks = makeEnvelopes(12);
    await current().write(tasks);
    const claims = await Promise.all([1, 2, 3, 4].map(() => claim(current(), { limit: 5 })));
    const claimed = claims.flatMap(({ rows }) => taskIds(rows));
    expect(new Set(claimed).size).toBe(claimed.length);
    const rest = await claim(current());
    expect([...claimed, ...taskIds(rest.rows)].sort()).toEqual(ids(tasks).sort());
  });

  it('hides a row from other relays while its relay lives', async () => {
    await current().write([makeEnvelope()]);
    expect((await claim(current())).rows).toHaveLength(1);
    expect((await claim(current())).rows).toHaveLength(0);
  });

  it('distinguishes the first claim of a row from later ones', async () => {
    await current().write([makeEnvelope()]);
    const first = await claim(current());
    await current().store.release(first.token);
    const second = await claim(current());
    expect([first, second].map(({ rows }) => rows[0]?.isFirstClaim)).toEqual([true, false]);
  });

  it('takes over at once from a relay whose lease has expired', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    await claim(current(), { leaseMs: 2 * MINUTE, staleMs: HOUR });
    expect((await claim(current())).rows).toHaveLength(0);
    await current().advance(5 * MINUTE);
    expect(taskIds((await claim(current())).rows)).toEqual([task.id]);
  });

  it('takes over at once from a relay that left, and from one without a lease', async () => {
    const tasks = makeEnvelopes(2);
    await current().write(tasks);
    const { relay } = await claim(current(), { limit: 1 });
    await claim(current(), { limit: 1, relay: unique('relay') });
    await current().store.leave(relay);
    expect(taskIds((await claim(current())).rows).sort()).toEqual(ids(tasks).sort());
  });

  it('takes over from a living relay only when its claim is stale', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    await claim(current(), { leaseMs: 5 * HOUR, staleMs: 10 * MINUTE });
    await current().advance(5 * MINUTE);
    expect((await claim(current())).rows).toHaveLength(0);
    await current().advance(10 * MINUTE);
    expect(taskIds((await claim(current())).rows)).toEqual([task.id]);
  });

  it('lasts longer when it is renewed', async () => {
    await current().write(makeEnvelopes(2));
    const { token } = await claim(current(), { leaseMs: 5 * HOUR, staleMs: 10 * MINUTE });
    await current().advance(7 * MINUTE);
    expect(await current().store.renewClaim(token, 10 * MINUTE)).toBe(2);
    await current().advance(7 * MINUTE);
    expect((await claim(current())).rows).toHaveLength(0);
  });

  it('is kept while its relay sends heartbeats', async () => {
    await current().write([makeEnvelope()]);
    const { relay } = await claim(current(), { leaseMs: 10 * MINUTE, staleMs: 5 * HOUR });
    await current().advance(7 * MINUTE);
    await current().store.beat(relay, 10 * MINUTE);
    await current().advance(7 * MINUTE);
    expect((await claim(current())).rows).toHaveLength(0);
  });
}

/** A row that was claimed by one relay and then taken over by another. */
async function takenOver(
  fixture: OutboxFixture,
): Promise<{ task: Envelope; late: Claim; owner: Claim }> {
  const task = makeEnvelope();
  await fixture.write([task]);
  const late = await claim(fixture, { leaseMs: 2 * MINUTE });
  await fixture.advance(5 * MINUTE);
  const owner = await claim(fixture);
  expect(taskIds(owner.rows)).toEqual([task.id]);
  return { task, late, owner };
}

function settling(current: Current): void {
  it('deletes only the named rows', async () => {
    const [sent, unsent] = [makeEnvelope(), makeEnvelope()];
    await current().write([sent, unsent]);
    const { token, rows } = await claim(current());
    expect(await current().store.settlePublished(token, rowsOf(rows, sent))).toBe(1);
    expect(await current().countRows([sent.id])).toBe(0);
    expect(await current().countRows([unsent.id])).toBe(1);
    expect(await current().store.settlePublished(token, rowsOf(rows, sent))).toBe(0);
  });

  it('changes nothing for the previous owner of a row', async () => {
    const { task, late, owner } = await takenOver(current());
    const { store } = current();
    const rows = rowsOf(late.rows, task);
    const failure = { error: 'late', delayMs: HOUR };
    expect(await store.settlePublished(late.token, rows)).toBe(0);
    expect(
      await store.settleFailed(
        late.token,
        rows.map(row => ({ row, ...failure })),
      ),
    ).toBe(0);
    expect(
      await store.settleFailed(
        late.token,
        rows.map(row => ({ row, error: 'late', delayMs: null })),
      ),
    ).toBe(0);
    expect(await store.release(late.token)).toBe(0);
    expect(await store.defer(late.token, rows, HOUR)).toBe(0);
    expect(await store.renewClaim(late.token, HOUR)).toBe(0);
    expect(await current().readModel.showDeadLetter(task.id)).toBeNull();
    expect(await current().countRows([task.id])).toBe(1);
    expect(await store.settlePublished(owner.token, rowsOf(owner.rows, task))).toBe(1);
  });

  it('delays a failed row by its backoff and counts the retry', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const { token, rows } = await claim(current());
    const failures = rows.map(({ row }) => ({ row, error: 'unroutable', delayMs: 10 * MINUTE }));
    expect(await current().store.settleFailed(token, failures)).toBe(1);
    expect((await claim(current())).rows).toHaveLength(0);
    await current().advance(11 * MINUTE);
    const again = await claim(current());
    expect(taskIds(again.rows)).toEqual([task.id]);
    expect(again.rows[0]).toMatchObject({ retries: 1, isFirstClaim: false });
    expect(bytesOf(again.rows[0]?.envelope.body)).toEqual(bytesOf(task.body));
  });

  it('releases claimed rows at once, without counting a retry', async () => {
    const tasks = makeEnvelopes(3);
    await current().write(tasks);
    const { token } = await claim(current());
    expect(await current().store.release(token)).toBe(3);
    const again = await claim(current());
    expect(taskIds(again.rows).sort()).toEqual(ids(tasks).sort());
    expect(again.rows.every(({ retries }) => retries === 0)).toBe(true);
  });

  it('defers claimed rows, without counting a retry', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const { token, rows } = await claim(current());
    expect(await current().store.defer(token, rowsOf(rows, task), 10 * MINUTE)).toBe(1);
    expect((await claim(current())).rows).toHaveLength(0);
    await current().advance(11 * MINUTE);
    const again = await claim(current());
    expect(taskIds(again.rows)).toEqual([task.id]);
    expect(again.rows[0]?.retries).toBe(0);
  });

  it('defers rows of one claim for different times', async () => {
    const tasks = [makeEnvelope(), makeEnvelope(), makeEnvelope()] as const;
    await current().write(tasks);
    const { token, rows } = await claim(current());
    const numbers = tasks.flatMap(task => rowsOf(rows, task));
    const delays = [30 * MINUTE, 10 * MINUTE, 20 * MINUTE];
    expect(await current().store.defer(token, numbers, delays)).toBe(3);
    const order = [tasks[1], tasks[2], tasks[0]];
    for (const task of order) {
      expect((await claim(current())).rows).toHaveLength(0);
      await current().advance(10.5 * MINUTE);
      expect(taskIds((await claim(current())).rows)).toEqual([task.id]);
    }
  });

  it('accepts an owner whose claim has expired, as long as no relay has taken over', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const { token, rows } = await claim(current(), { leaseMs: 2 * MINUTE, staleMs: 2 * MINUTE });
    await current().advance(5 * MINUTE);
    expect(await current().store.settlePublished(token, rowsOf(rows, task))).toBe(1);
    expect(await current().countRows([task.id])).toBe(0);
  });
}

function deadLetters(current: Current): void {
  /** Fails a row for good, and returns the version it died under. */
  const kill = async (task: Envelope): Promise<number> => {
    const { token, rows } = await claim(current());
    const failures = rowsOf(rows, task).map(row => ({
      row,
      error: 'no such exchange',
      delayMs: null,
    }));
    expect(await current().store.settleFailed(token, failures)).toBe(1);
    return (await current().readModel.showDeadLetter(task.id))?.version ?? -1;
  };

  it('keep the row with bytes and reason when no retry is left', async () => {
    const task = makeEnvelope({ args: AWKWARD_BYTES, options: AWKWARD_BYTES });
    await current().write([task]);
    await kill(task);
    expect(await current().countRows([task.id])).toBe(0);
    const letter = await current().readModel.showDeadLetter(task.id);
    expect(letter).toMatchObject({
      id: task.id,
      name: task.name,
      queue: task.queue,
      where: 'relay',
    });
    expect(`${letter?.reason} ${letter?.error}`).toContain('no such exchange');
    expect(bytesOf(letter?.body)).toEqual(bytesOf(task.body));
    expect(bytesOf(letter?.options)).toEqual(bytesOf(task.options));
    await current().advance(2 * HOUR);
    expect(taskIds((await claim(current())).rows)).not.toContain(task.id);
  });

  it('are revived with their bytes and all their retries', async () => {
    const task = makeEnvelope({ args: AWKWARD_BYTES });
    await current().write([task]);
    expect(await current().store.reviveDeadLetter(task.id, await kill(task))).toBe('ok');
    expect(await current().readModel.showDeadLetter(task.id)).toBeNull();
    const { rows } = await claim(current());
    expect(rows.map(({ envelope }) => plainEnvelope(envelope))).toEqual([plainEnvelope(task)]);
    expect(rows[0]?.retries).toBe(0);
  });

  it('are revived once', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const version = await kill(task);
    expect(await current().store.reviveDeadLetter(task.id, version)).toBe('ok');
    expect(['absent', 'conflict']).toContain(
      await current().store.reviveDeadLetter(task.id, version),
    );
    expect((await claim(current())).rows).toHaveLength(1);
  });

  it('are not revived under the version of an earlier death', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const first = await kill(task);
    await current().store.reviveDeadLetter(task.id, first);
    const second = await kill(task);
    expect(await current().store.reviveDeadLetter(task.id, first)).toBe('conflict');
    expect(await current().store.reviveDeadLetter(task.id, second)).toBe('ok');
  });

  it('are kept when a row with the same id prevents a revival', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const version = await kill(task);
    await current().write([makeEnvelope({ id: task.id, args: AWKWARD_BYTES })]);
    expect(await current().store.reviveDeadLetter(task.id, version)).toBe('conflict');
    const letter = await current().readModel.showDeadLetter(task.id);
    expect(bytesOf(letter?.body)).toEqual(bytesOf(task.body));
  });

  it('that do not exist cannot be revived', async () => {
    expect(await current().store.reviveDeadLetter(unique('task'), 1)).toBe('absent');
  });
}

function withdrawing(current: Current): void {
  it('deletes the row of one task, however late it is due', async () => {
    const [gone, other] = [
      makeEnvelope({ etaMs: (await current().nowMs()) + 48 * HOUR }),
      makeEnvelope(),
    ];
    await current().write([gone, other]);
    const reported: Envelope[] = [];
    const report = async (envelope: Envelope): Promise<void> => {
      reported.push(envelope);
      // A process that dies here leaves the row in the outbox.
      expect(await current().countRows([gone.id])).toBe(1);
    };
    expect(await current().store.withdraw(gone.id, report)).toBe(true);
    expect(await current().store.withdraw(gone.id, report)).toBe(false);
    expect(reported.map(plainEnvelope)).toEqual([plainEnvelope(gone)]);
    expect(await current().countRows([gone.id])).toBe(0);
    expect(taskIds((await claim(current())).rows)).toContain(other.id);
  });

  it('leaves a claimed row to its relay', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const { token, rows } = await claim(current());
    const unexpected = (): Promise<void> => Promise.reject(new Error('not asked for'));
    expect(await current().store.withdraw(task.id, unexpected)).toBe(false);
    expect(await current().store.settlePublished(token, rowsOf(rows, task))).toBe(1);
  });
}

function moving(current: Current): void {
  const setup = (): { move: NonNullable<OutboxStore['move']>; driver: LedgerDriver } | null => {
    const { store, ledger, readModel } = current();
    if (store.move === null || ledger === null) return null;
    const unread = { read: () => Promise.reject(new Error('not asked for')) };
    const driver = new LedgerDriver({
      ledger,
      readModel,
      advance: ms => current().advance(ms),
      results: unread,
      dispose: async () => undefined,
    });
    return { move: store.move.bind(store), driver };
  };

  it('moves due rows into the ledger, bytes unchanged, where both are one database', async () => {
    const parts = setup();
    if (parts === null) return;
    const [task, later] = [
      makeEnvelope({ args: AWKWARD_BYTES, priority: 4 }),
      makeEnvelope({ etaMs: (await current().nowMs()) + HOUR }),
    ];
    await current().write([task, later]);
    const reply = await parts.move(10);
    expect(reply.rows).toEqual([
      { id: task.id, name: task.name, queue: task.queue, answer: 'moved' },
    ]);
    expect(await current().countRows([task.id])).toBe(0);
    expect(await current().countRows([later.id])).toBe(1);
    const { task: begun } = await parts.driver.beginWaiting(task);
    expect(plainEnvelope(begun.envelope)).toEqual(plainEnvelope(task));
    expect((await parts.move(10)).rows).toEqual([]);
  });

  it('moves rows up to the limit', async () => {
    const parts = setup();
    if (parts === null) return;
    await current().write(makeEnvelopes(3));
    expect((await parts.move(2)).rows).toHaveLength(2);
    expect((await parts.move(2)).rows).toHaveLength(1);
  });

  it('drops a copy of a task that the ledger knows, in any state', async () => {
    const parts = setup();
    if (parts === null) return;
    const done = await parts.driver.done();
    const { envelope: running, task } = await parts.driver.running();
    const cancelled = makeEnvelope();
    await parts.driver.ledger.cancel(cancelled.id);
    await current().write([done, running, cancelled]);
    const reply = await parts.move(10);
    expect(reply.rows.map(({ answer }) => answer)).toEqual(['copy', 'copy', 'copy']);
    expect(await current().countRows(ids([done, running, cancelled]))).toBe(0);
    expect(await parts.driver.commit(task)).toBe('ok');
    expect(await parts.driver.state(cancelled.id)).toBe('cancelled');
    // Only the row has its follow-ups, so they are written now.
    const entries = await parts.driver.ledger.after.list(0, 10_000);
    expect(entries.map(({ key }) => key)).toContain(endedKey(cancelled.id, 0));
  });

  it('buries a row whose id belongs to another task, and leaves that task alone', async () => {
    const parts = setup();
    if (parts === null) return;
    const { envelope, task } = await parts.driver.running();
    const conflicting = makeEnvelope({
      id: envelope.id,
      queue: envelope.queue,
      args: AWKWARD_BYTES,
    });
    await current().write([conflicting]);
    expect((await parts.move(10)).rows).toMatchObject([{ id: envelope.id, answer: 'conflict' }]);
    expect(await parts.driver.commit(task)).toBe('ok');
    const { items } = await current().readModel.listDeadLetters({
      limit: 1_000,
      cursor: null,
      order: 'newest',
      taskName: null,
    });
    const letters = await Promise.all(
      items.map(({ id }) => current().readModel.showDeadLetter(id)),
    );
    const bodies = letters.map(letter => JSON.stringify(bytesOf(letter?.body)));
    expect(bodies).toContain(JSON.stringify(bytesOf(conflicting.body)));
  });
}

/** Three of them are more than one answer carries. */
const LARGE = 3_000_000;

function largeRows(current: Current): void {
  it('are claimed a few at a time, in their order', async () => {
    const envelopes = makeEnvelopes(5, { args: new Uint8Array(LARGE).fill(0x61) });
    const isOurs = new Set(ids(envelopes));
    for (const envelope of envelopes) await current().write([envelope]);
    const found: OutboxRow[] = [];
    while (found.length < envelopes.length) {
      const { rows } = await claim(current(), { limit: 100 });
      expect(rows.length).toBeGreaterThan(0);
      const ours = rows.filter(({ envelope }) => isOurs.has(envelope.id));
      expect(ours.length).toBeLessThanOrEqual(2);
      found.push(...ours);
    }
    expect(found.map(({ envelope }) => envelope.id)).toEqual(ids(envelopes));
    for (const [at, { envelope, isFirstClaim }] of found.entries())
      expect([isFirstClaim, envelope.body.length]).toEqual([true, envelopes[at]?.body.length]);
  });
}
