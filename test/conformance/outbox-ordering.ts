import { describe, expect, it } from 'vitest';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';
import {
  claim,
  rowsOf,
  taskIds,
  useFixture,
  type Claim,
  type OutboxFixture,
} from './outbox-store.ts';
import type { OutboxReadsFixture } from './outbox-reads.ts';

type OrderingFixture = OutboxFixture & Pick<OutboxReadsFixture, 'writeRow'>;
type Current = () => OrderingFixture;

/** Rows with the same key are published in commit order, one at a time, across relays and retries. */
export function describeOutboxOrdering(
  name: string,
  makeFixture: () => Promise<OrderingFixture>,
): void {
  describe(`outbox ordering: ${name}`, () => {
    const current = useFixture(makeFixture);
    describe('an ordering key', () => keySuite(current));
    describe('a dead first row', () => deadHeadSuite(current));
  });
}

/** Three rows of one key, committed one after the other. */
async function writeThree(
  fixture: OrderingFixture,
  parksKey = false,
): Promise<[Envelope, Envelope, Envelope]> {
  const orderingKey = unique('key');
  const tasks = [makeEnvelope(), makeEnvelope(), makeEnvelope()] as const;
  for (const envelope of tasks) await fixture.writeRow({ envelope, orderingKey, parksKey });
  return [...tasks];
}

const claimedIds = async (current: Current): Promise<string[]> =>
  taskIds((await claim(current())).rows);

async function publish(current: Current, { token, rows }: Claim): Promise<void> {
  const settled = await current().store.settlePublished(
    token,
    rows.map(({ row }) => row),
  );
  expect(settled).toBe(rows.length);
}

function keySuite(current: Current): void {
  it('offers only its first row, and holds back no other key', async () => {
    const [first] = await writeThree(current());
    const [other] = await writeThree(current());
    const free = makeEnvelope();
    await current().write([free]);
    expect((await claimedIds(current)).sort()).toEqual(ids([first, other, free]).sort());
    expect(await claimedIds(current)).toEqual([]);
  });

  it('offers the next row to any relay once the first is published', async () => {
    const tasks = await writeThree(current());
    for (const task of tasks) {
      const claimed = await claim(current());
      expect(taskIds(claimed.rows)).toEqual([task.id]);
      await publish(current, claimed);
    }
  });

  it('offers its first row again after it was released', async () => {
    const [first] = await writeThree(current());
    const { token } = await claim(current());
    await current().store.release(token);
    expect(await claimedIds(current)).toEqual([first.id]);
  });

  it('waits for the retry of its first row, and the rows behind it do not wake a relay earlier', async () => {
    const [first, second] = await writeThree(current());
    const { token, rows } = await claim(current());
    const failures = rows.map(({ row }) => ({ row, error: 'unroutable', delayMs: 10 * MINUTE }));
    await current().store.settleFailed(token, failures);
    expect(await claimedIds(current)).toEqual([]);
    const waitMs = await current().store.nextDueMs();
    expect(waitMs).toBeGreaterThan(5 * MINUTE);
    expect(waitMs).toBeLessThanOrEqual(10 * MINUTE);
    await current().advance(11 * MINUTE);
    const again = await claim(current());
    expect(taskIds(again.rows)).toEqual([first.id]);
    expect(again.rows[0]?.retries).toBe(1);
    await publish(current, again);
    expect(await claimedIds(current)).toEqual([second.id]);
  });

  it('waits while its first row is deferred', async () => {
    const [first] = await writeThree(current());
    const { token, rows } = await claim(current());
    await current().store.defer(token, rowsOf(rows, first), 10 * MINUTE);
    expect(await claimedIds(current)).toEqual([]);
    await current().advance(11 * MINUTE);
    expect(await claimedIds(current)).toEqual([first.id]);
  });

  it('does not wake a relay while its first row is being published', async () => {
    await writeThree(current());
    await claim(current());
    expect(await current().store.nextDueMs()).toBeNull();
  });

  it('passes only its first row to another relay when the first relay dies', async () => {
    const [first] = await writeThree(current());
    await claim(current(), { leaseMs: 2 * MINUTE, staleMs: HOUR });
    await current().advance(5 * MINUTE);
    expect(await claimedIds(current)).toEqual([first.id]);
  });

  it('keeps its order while relays claim and settle at the same time', async () => {
    const keys = ['a', 'b', 'c', 'd'].map(letter => unique(letter));
    const written = new Map(keys.map(key => [key, makeEnvelopes(8)]));
    for (const [orderingKey, tasks] of written)
      for (const envelope of tasks) await current().writeRow({ envelope, orderingKey });
    const sent: string[] = [];
    const relay = async (): Promise<void> => {
      for (let idle = 0; idle < 3;) {
        const claimed = await claim(current(), { limit: 3 });
        sent.push(...taskIds(claimed.rows));
        await publish(current, claimed);
        idle = claimed.rows.length === 0 ? idle + 1 : 0;
      }
    };
    await Promise.all([relay(), relay(), relay()]);
    await relay();
    for (const tasks of written.values())
      expect(sent.filter(id => ids(tasks).includes(id))).toEqual(ids(tasks));
  });

  it('moves its rows together and in their order where outbox and ledger are one database', async () => {
    const { store } = current();
    const move: OutboxStore['move'] = store.move?.bind(store) ?? null;
    if (move === null) return;
    const tasks = await writeThree(current());
    const moved = async (limit: number): Promise<readonly string[]> =>
      (await move(limit)).rows.map(({ id }) => id);
    expect(await moved(2)).toEqual(ids(tasks.slice(0, 2)));
    expect(await moved(10)).toEqual([tasks[2].id]);
  });

  it('moves none of its rows while the first is claimed, and rows of other keys all the same', async () => {
    const { store } = current();
    const move: OutboxStore['move'] = store.move?.bind(store) ?? null;
    if (move === null) return;
    const tasks = await writeThree(current());
    const { token } = await claim(current());
    const others = await writeThree(current());
    expect((await move(3)).rows.map(({ id }) => id)).toEqual(ids(others));
    await store.release(token);
    expect((await move(10)).rows.map(({ id }) => id)).toEqual(ids(tasks));
  });
}

function deadHeadSuite(current: Current): void {
  /** Fails the claimable row for good, and returns the version it died under. */
  const kill = async (task: Envelope): Promise<number> => {
    const { token, rows } = await claim(current());
    expect(taskIds(rows)).toEqual([task.id]);
    const failures = rows.map(({ row }) => ({ row, error: 'refused', delayMs: null }));
    expect(await current().store.settleFailed(token, failures)).toBe(1);
    return (await current().readModel.showDeadLetter(task.id))?.version ?? -1;
  };

  it('lets the next row be claimed', async () => {
    const [first, second] = await writeThree(current());
    await kill(first);
    expect(await claimedIds(current)).toEqual([second.id]);
  });

  it('holds back the other rows where it parks its key, and wakes no relay', async () => {
    const [first] = await writeThree(current(), true);
    const version = await kill(first);
    expect(await claimedIds(current)).toEqual([]);
    expect(await current().store.nextDueMs()).toBeNull();
    // Otherwise these rows would stay for ever.
    await current().store.reviveDeadLetter(first.id, version);
  });

  it('is published first again when it is revived', async () => {
    const tasks = await writeThree(current(), true);
    const version = await kill(tasks[0]);
    expect(await current().store.reviveDeadLetter(tasks[0].id, version)).toBe('ok');
    for (const task of tasks) {
      const claimed = await claim(current());
      expect(taskIds(claimed.rows)).toEqual([task.id]);
      await publish(current, claimed);
    }
  });

  it('is published last when it is revived after the others became claimable', async () => {
    const [first, second, third] = await writeThree(current());
    const version = await kill(first);
    expect(await current().store.reviveDeadLetter(first.id, version)).toBe('ok');
    for (const task of [second, third, first]) {
      const claimed = await claim(current());
      expect(taskIds(claimed.rows)).toEqual([task.id]);
      await publish(current, claimed);
    }
  });
}
