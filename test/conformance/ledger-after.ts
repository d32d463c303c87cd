import { describe, expect, it } from 'vitest';
import { AFTER_LIST_BYTES } from '../../src/ledger/batch-limits.ts';
import { revivedKey, type AfterEntry, type PublishEntry } from '../../src/ledger/ledger.ts';
import { AWKWARD_BYTES, MINUTE, makeEnvelope, unique } from './envelopes.ts';
import { sampleError, type LedgerDriver } from './ledger-driver.ts';

/** Follow-ups that cannot be sent: due again later, counted, and given up in the end. */
export function afterLogSuite(driver: () => LedgerDriver): void {
  describe('a follow-up that cannot be sent', () => deferring(driver));
  describe('a follow-up that became a dead letter', () => reviving(driver));
}

function deferring(driver: () => LedgerDriver): void {
  const followUp = (): PublishEntry => ({ key: unique('after'), publish: makeEnvelope() });
  const written = async (count: number, queue = unique('queue')): Promise<readonly string[]> => {
    const { task } = await driver().running(makeEnvelope({ queue }));
    const after = Array.from({ length: count }, followUp);
    await driver().commit(task, { after });
    return after.map(({ key }) => key);
  };
  const all = (): Promise<readonly AfterEntry[]> => driver().ledger.after.list(0, 10_000);
  /** The log is shared with other tests: only these keys matter. */
  const listed = async (keys: readonly string[]): Promise<readonly AfterEntry[]> => {
    const wanted = new Set(keys);
    return (await all()).filter(({ key }) => wanted.has(key));
  };

  it('is due again after its delay, before follow-ups that were written later', async () => {
    // A Redis Cluster keeps the order within a queue, not between queues.
    const queue = unique('queue');
    const keys = await written(2, queue);
    await driver().ledger.after.defer([
      { key: keys[0] ?? '', delayMs: 5 * MINUTE, isAttempt: true },
    ]);
    expect((await listed(keys)).map(({ key }) => key)).toEqual([keys[1]]);
    await driver().fixture.advance(10 * MINUTE);
    const later = await written(1, queue);
    const found = (await listed([...keys, ...later])).map(({ key }) => key);
    expect(found).toEqual([keys[1], keys[0], ...later]);
    await driver().ledger.after.strike([...keys, ...later]);
  });

  it('spends an attempt when it was refused, and none when the destination was unreachable', async () => {
    const [key = ''] = await written(1);
    expect(await listed([key])).not.toHaveProperty('0.attempts');
    for (const isAttempt of [true, false, true])
      await driver().ledger.after.defer([{ key, delayMs: 0, isAttempt }]);
    await driver().fixture.advance(1_000);
    expect(await listed([key])).toMatchObject([{ key, attempts: 2 }]);
    await driver().ledger.after.strike([key]);
  });

  it('stays deleted when it is deferred after it was struck off, and its attempts start at zero', async () => {
    const { task } = await driver().running();
    const entry = followUp();
    await driver().commit(task, { after: [entry] });
    await driver().ledger.after.defer([{ key: entry.key, delayMs: 0, isAttempt: true }]);
    await driver().ledger.after.strike([entry.key]);
    await driver().ledger.after.defer([{ key: entry.key, delayMs: 0, isAttempt: true }]);
    expect(await listed([entry.key])).toEqual([]);
    const second = await driver().running();
    await driver().commit(second.task, { after: [entry] });
    expect(await listed([entry.key])).not.toHaveProperty('0.attempts');
    await driver().ledger.after.strike([entry.key]);
  });

  it('is listed, deferred and struck off in a batch of nine thousand', async () => {
    const keys = await written(9_000);
    expect(await listed(keys)).toHaveLength(keys.length);
    await driver().ledger.after.defer(keys.map(key => ({ key, delayMs: MINUTE, isAttempt: true })));
    expect(await listed(keys)).toEqual([]);
    await driver().ledger.after.strike(keys);
    await driver().fixture.advance(2 * MINUTE);
    expect(await listed(keys)).toEqual([]);
  });

  it('is listed in small pages when it is large, so that memory is bounded', async () => {
    // What other tests have left there may be large as well.
    for (let found = await all(); found.length > 0; found = await all())
      await driver().ledger.after.strike(found.map(({ key }) => key));
    const { task } = await driver().running();
    // The last entry alone is larger than all entries of one page may be together.
    const after = [1_500_000, 1_500_000, 1_500_000, 5_000_000].map(size => ({
      key: unique('after'),
      publish: makeEnvelope({ args: new Uint8Array(size).fill(0x31) }),
    }));
    await driver().commit(task, { after });
    const keys = after.map(({ key }) => key);
    const seen: string[] = [];
    for (let page = 0; page < 10 && seen.length < 4; page++) {
      const found = await listed(keys);
      expect(found.length).toBeGreaterThan(0);
      expect(found.length === 1 || bytesIn(found) <= AFTER_LIST_BYTES).toBe(true);
      await driver().ledger.after.strike(found.map(({ key }) => key));
      seen.push(...found.map(({ key }) => key));
    }
    expect(seen.toSorted()).toEqual(keys.toSorted());
  });
}

const bytesIn = (entries: readonly AfterEntry[]): number =>
  entries.reduce((sum, entry) => sum + ('publish' in entry ? entry.publish.body.length : 0), 0);

function reviving(driver: () => LedgerDriver): void {
  it.each(['ERR_FOLLOW_UP_UNSENT', 'ERR_DESTINATION_REFUSED'])(
    '(%s) is sent again when it is revived, and its record is deleted',
    async reason => {
      const expiresMs = Math.floor(await driver().nowMs()) + 60 * MINUTE;
      const envelope = makeEnvelope({ args: AWKWARD_BYTES, priority: 4, expiresMs });
      const { ledger } = driver();
      await ledger.bury([{ kind: 'message', envelope, reason, error: sampleError('no queue') }]);
      expect(await ledger.revive(envelope.id, 2)).toBe('conflict');
      expect(await ledger.revive(envelope.id, 1)).toBe('ok');
      expect(await ledger.revive(envelope.id, 1)).toBe('absent');
      // It counts as long overdue: a request by an operator does not have to age first.
      const found = await ledger.after.list(30 * MINUTE, 10_000);
      const [entry] = found.filter(({ key }) => key === revivedKey(envelope.id, 1));
      if (entry === undefined || !('publish' in entry)) throw new Error('it is not to be sent');
      const { body, options, ...rest } = envelope;
      expect(entry.publish).toMatchObject(rest);
      expect([...entry.publish.body]).toEqual([...body]);
      expect([...entry.publish.options]).toEqual([...options]);
      await ledger.after.strike([entry.key]);
      // The message published for it is new to the ledger.
      const { worker } = await driver().open();
      const reply = await driver().begin(worker, { messages: [envelope] });
      expect(reply.answers).toEqual(['begun']);
    },
  );
}
