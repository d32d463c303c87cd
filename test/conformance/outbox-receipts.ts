import { beforeEach, describe, expect, it } from 'vitest';
import { PARKED, type SentRow } from '../../src/outbox/receipt-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';
import type { OutboxReads } from '../../src/outbox/outbox-reads.ts';
import type { OutboxReadsFixture } from './outbox-reads.ts';
import { claim, rowsOf, taskIds, useFixture, type OutboxFixture } from './outbox-store.ts';

type ReceiptsFixture = OutboxFixture &
  Pick<OutboxReadsFixture, 'writeRow'> & { readonly reads: OutboxReads };
type Current = () => ReceiptsFixture;

/** Published rows that stay until their task is reported as ended. */
export function describeOutboxReceipts(
  name: string,
  makeFixture: () => Promise<ReceiptsFixture>,
): void {
  describe(`outbox receipts: ${name}`, () => {
    const current = useFixture(makeFixture);
    beforeEach(async () => {
      const { receipts } = current().store;
      for (;;) {
        const rows = await receipts.take(1_000, HOUR);
        if (rows.length === 0) return;
        await receipts.received(rows.map(({ row }) => row));
      }
    });
    describe('a published row', () => publishedSuite(current));
    describe('an ordering key', () => keySuite(current));
  });
}

/** Claims and marks; returns the rows, by task. */
async function send(fixture: ReceiptsFixture, tasks: readonly Envelope[]): Promise<string[]> {
  const { token, rows } = await claim(fixture);
  const named = tasks.flatMap(task => rowsOf(rows, task));
  expect(await fixture.store.receipts.markSent(token, named, MINUTE)).toBe(tasks.length);
  return named;
}

async function writeAndSend(fixture: ReceiptsFixture, count = 1): Promise<[Envelope[], string[]]> {
  const tasks = makeEnvelopes(count);
  await fixture.write(tasks);
  return [tasks, await send(fixture, tasks)];
}

const taken = async (current: Current, leaseMs = HOUR): Promise<readonly SentRow[]> =>
  await current().store.receipts.take(1_000, leaseMs);

const stateOf = async (current: Current, { id }: Envelope): Promise<string | undefined> =>
  (await current().reads.find(id))?.state;

function publishedSuite(current: Current): void {
  it('stays, is never claimed again, and is counted', async () => {
    const before = (await current().reads.sample(0)).sent;
    const [tasks] = await writeAndSend(current(), 2);
    await current().advance(2 * HOUR);
    expect((await claim(current())).rows).toEqual([]);
    expect(await current().store.nextDueMs()).toBeNull();
    expect(await current().countRows(ids(tasks))).toBe(2);
    expect(await stateOf(current, tasks[0] as Envelope)).toBe('sent');
    expect((await current().reads.sample(0)).sent).toBe(before + 2);
  });

  it('is marked only by the relay that still owns it', async () => {
    const [task] = makeEnvelopes(1) as [Envelope];
    await current().write([task]);
    const late = await claim(current(), { leaseMs: 2 * MINUTE });
    await current().advance(5 * MINUTE);
    const owner = await claim(current());
    const { receipts } = current().store;
    const named = rowsOf(owner.rows, task);
    expect(await receipts.markSent(late.token, named, MINUTE)).toBe(0);
    expect(await stateOf(current, task)).toBe('claimed');
    expect(await receipts.markSent(owner.token, named, MINUTE)).toBe(1);
  });

  it('is checked by one relay when it is due, and by another when the lease is over', async () => {
    const [tasks] = await writeAndSend(current(), 8);
    expect(await taken(current)).toEqual([]);
    await current().advance(2 * MINUTE);
    const looks = await Promise.all([1, 2, 3].map(() => current().store.receipts.take(3, HOUR)));
    const seen = [...looks.flat(), ...(await taken(current))];
    expect(ids(seen).sort()).toEqual(ids(tasks).sort());
    expect(seen[0]).toMatchObject({ claims: 1, isOrdered: false, parksKey: false });
    expect(seen[0]?.isParked).toBe(false);
    expect(seen[0]?.ageMs).toBeGreaterThanOrEqual(2 * MINUTE);
    expect(seen[0]?.ageMs).toBeLessThan(3 * MINUTE);
    await current().advance(2 * HOUR);
    expect(await taken(current)).toHaveLength(8);
  });

  it('is deleted when its task has ended, once', async () => {
    const [tasks, rows] = await writeAndSend(current(), 2);
    const { receipts } = current().store;
    expect(await receipts.received(rows.slice(0, 1))).toBe(1);
    expect(await receipts.received(rows.slice(0, 1))).toBe(0);
    expect(await current().countRows(ids(tasks))).toBe(1);
  });

  it('can be checked again later, and keeps its age', async () => {
    const [, rows] = await writeAndSend(current());
    await current().advance(2 * MINUTE);
    await taken(current);
    expect(await current().store.receipts.later(rows, 10 * MINUTE)).toBe(1);
    await current().advance(5 * MINUTE);
    expect(await taken(current)).toEqual([]);
    await current().advance(6 * MINUTE);
    const [seen] = await taken(current);
    expect(seen?.ageMs).toBeGreaterThanOrEqual(13 * MINUTE);
  });

  it('is published again when its task is lost: one more claim, and its age starts at zero', async () => {
    const [[task], rows] = (await writeAndSend(current())) as [[Envelope], string[]];
    await current().advance(30 * MINUTE);
    expect(await current().store.receipts.sendAgain(rows, 1)).toBe(1);
    expect(await current().store.receipts.sendAgain(rows, 1)).toBe(0);
    expect(await current().store.nextDueMs()).toBe(0);
    const again = await claim(current());
    expect(taskIds(again.rows)).toEqual([task.id]);
    expect(again.rows[0]?.isFirstClaim).toBe(false);
    await current().store.receipts.markSent(again.token, rows, MINUTE);
    await current().advance(2 * MINUTE);
    const [seen] = await taken(current);
    expect(seen?.claims).toBe(2);
    expect(seen?.ageMs).toBeLessThan(5 * MINUTE);
    // A relay that checked it before the second publish has no say any more.
    expect(await current().store.receipts.sendAgain(rows, 1)).toBe(0);
    expect(await stateOf(current, task)).toBe('sent');
  });

  it('is not changed by receipt steps in any other state', async () => {
    const task = makeEnvelope();
    await current().write([task]);
    const rows = rowsOf((await claim(current())).rows, task);
    const { receipts } = current().store;
    expect([
      await receipts.received(rows),
      await receipts.later(rows, HOUR),
      await receipts.park(rows, HOUR),
      await receipts.sendAgain(rows, 1),
    ]).toEqual([0, 0, 0, 0]);
    expect(await stateOf(current, task)).toBe('claimed');
  });
}

function keySuite(current: Current): void {
  async function ordered(parksKey: boolean): Promise<[Envelope, Envelope, string[]]> {
    const orderingKey = unique('key');
    const [first, second] = [makeEnvelope(), makeEnvelope()];
    for (const envelope of [first, second])
      await current().writeRow({ envelope, orderingKey, parksKey });
    return [first, second, await send(current(), [first])];
  }

  it('waits for the end of its first task', async () => {
    const [, second, rows] = await ordered(false);
    expect((await claim(current())).rows).toEqual([]);
    await current().advance(2 * MINUTE);
    const [seen] = await taken(current);
    expect(seen).toMatchObject({ isOrdered: true, parksKey: false });
    await current().store.receipts.received(rows);
    expect(taskIds((await claim(current())).rows)).toEqual([second.id]);
  });

  it('is parked by a dead task, visibly, until that task is revived or deleted', async () => {
    const [first, second, rows] = await ordered(true);
    const { receipts } = current().store;
    await current().advance(2 * MINUTE);
    expect((await taken(current))[0]).toMatchObject({ parksKey: true, isParked: false });
    expect(await receipts.park(rows, MINUTE)).toBe(1);
    expect((await current().reads.find(first.id))?.lastError).toBe(PARKED);
    await current().advance(2 * MINUTE);
    expect((await taken(current))[0]).toMatchObject({ isParked: true });
    await receipts.later(rows, MINUTE);
    await current().advance(2 * MINUTE);
    expect((await taken(current))[0]).toMatchObject({ isParked: false });
    expect((await claim(current())).rows).toEqual([]);
    await receipts.received(rows);
    expect(taskIds((await claim(current())).rows)).toEqual([second.id]);
  });
}
