import { describe, expect, it, onTestFinished } from 'vitest';
import { unpack, type Unpacked } from '../../src/adapters/redis/redis-pack.ts';
import type { BegunTask } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, makeEnvelope, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver, runRef } from '../conformance/ledger-driver.ts';
import { openTestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const DONE = { outcome: { kind: 'done', result: bytes('{"a":1}') } } as const;

/** Tasks without an earlier record, begun together, and functions to read what is kept of them. */
async function begun(envelopes: readonly Envelope[], celeryResultMs = 0) {
  const fixture = await openTestLedger(redisUrl(), { celeryResultMs });
  onTestFinished(() => fixture.dispose());
  const { connection, root } = fixture;
  const driver = new LedgerDriver(fixture);
  const { worker } = await driver.open();
  const reply = await driver.begin(worker, { messages: envelopes, crashBudgets: { '*': 3 } });
  const tasks = reply.begun as readonly [BegunTask, ...BegunTask[]];
  const read = async (key: string): Promise<Buffer | null> =>
    (await connection.command('get', key)) as Buffer | null;
  /** With placeholders for times and the digest, which differ between tasks. */
  const recordOf = async ({ id, digest }: Envelope): Promise<readonly unknown[]> => {
    const fields = unpack((await read(`${root}t:${id}`)) ?? Buffer.of(0xc0));
    return (fields as readonly Unpacked[]).map(field => {
      if (typeof field === 'number') return field > 1e12 ? 'time' : field;
      if (!(field instanceof Buffer)) return field;
      const isDigest = field.toString('hex').includes(digest);
      return isDigest ? 'digest' : String(field).replace(/\d{13}/g, 'time');
    });
  };
  const celeryResult = async (id: string): Promise<unknown> => {
    const found = await read(`celery-task-meta-${id}`);
    return found && { ...JSON.parse(found.toString()), task_id: '', date_done: '' };
  };
  const doneCount = async (): Promise<string> =>
    String(await connection.command('hget', `${root}ended`, 'done'));
  return { driver, worker, tasks, root, read, recordOf, celeryResult, doneCount };
}

describe('a task that was new when it was begun', () => {
  it.each([0, 12 * HOUR])(
    'leaves the same record as a commit that reads it first (Celery results for %i ms)',
    async celeryResultMs => {
      const making = { queue: unique('queue'), priority: 3, expiresMs: Date.now() + HOUR };
      const envelopes = makeEnvelopes(2, making) as [Envelope, Envelope];
      const { driver, tasks, recordOf, celeryResult, doneCount } = await begun(
        envelopes,
        celeryResultMs,
      );
      const [quick, slow] = tasks as unknown as [BegunTask, BegunTask];
      const items = [driver.commitItem(quick, DONE), driver.commitItem(runRef(slow), DONE)];
      expect(await driver.ledger.commit(items)).toEqual(['ok', 'ok']);
      const [one, other] = envelopes;
      expect(await recordOf(one)).toEqual(await recordOf(other));
      expect(await celeryResult(one.id)).toEqual(await celeryResult(other.id));
      expect((await celeryResult(one.id)) !== null).toBe(celeryResultMs > 0);
      // Once more, as when the reply was lost: ok, and counted once.
      expect(await driver.ledger.commit(items)).toEqual(['ok', 'ok']);
      expect(await doneCount()).toBe('2');
    },
  );

  it('is not confused with another kind of task in its batch', async () => {
    const [queue, other] = [unique('queue'), unique('queue')];
    const kinds = [
      { queue, name: 'shop.mail' },
      { queue, name: 'shop.bill', priority: 7, options: bytes('{"keepResult":false}') },
      { queue: other, name: 'shop.mail' },
      { queue, name: 'shop.mail', expiresMs: Date.now() + HOUR },
      { queue, name: 'shop.bill', version: 2 },
    ];
    const pairs = kinds.map(kind => makeEnvelopes(2, kind) as [Envelope, Envelope]);
    const { driver, tasks, recordOf, celeryResult } = await begun(pairs.flat(), 12 * HOUR);
    const items = tasks.map((task, index) =>
      driver.commitItem(index % 2 === 0 ? task : runRef(task), index < 4 ? DONE : {}),
    );
    expect(await driver.ledger.commit(items)).toEqual(tasks.map(() => 'ok'));
    for (const [quick, slow] of pairs) {
      expect(await recordOf(quick)).toEqual(await recordOf(slow));
      expect(await celeryResult(quick.id)).toEqual(await celeryResult(slow.id));
    }
  });

  it('is counted once, even if one call commits it twice', async () => {
    const { driver, tasks, doneCount } = await begun([makeEnvelope()]);
    const item = driver.commitItem(tasks[0], DONE);
    expect(await driver.ledger.commit([item, { ...item }])).toEqual(['ok', 'ok']);
    expect(await doneCount()).toBe('1');
  });

  it('deletes its checkpoint and its long body', async () => {
    const long = makeEnvelope({ args: bytes(`["${'x'.repeat(2_000)}"]`) });
    const { driver, tasks, root, read } = await begun([makeEnvelope(), long]);
    for (const { id } of tasks) expect(await read(`${root}c:${id}`)).toBeNull();
    expect(await driver.ledger.checkpoint(runRef(tasks[0]), 1, bytes('7'))).toBe('ok');
    expect(await read(`${root}c:${tasks[0].id}`)).not.toBeNull();
    expect(await read(`${root}b:${long.id}`)).not.toBeNull();
    const items = tasks.map(task => driver.commitItem(task));
    expect(await driver.ledger.commit(items)).toEqual(['ok', 'ok']);
    expect(await read(`${root}c:${tasks[0].id}`)).toBeNull();
    expect(await read(`${root}b:${long.id}`)).toBeNull();
  });

  it('writes no Celery result where no result is wanted', async () => {
    const unwanted = makeEnvelope({ options: bytes('{"keepResult":false}') });
    const { driver, tasks, celeryResult } = await begun([unwanted], 12 * HOUR);
    expect(await driver.commit(tasks[0], DONE)).toBe('ok');
    expect(await celeryResult(unwanted.id)).toBeNull();
    expect(await driver.state(unwanted.id)).toBe('done');
  });

  it('is stale once its worker was declared dead, or it was cancelled, or its epoch was raised', async () => {
    const envelopes = makeEnvelopes(2);
    const { driver, worker, tasks } = await begun(envelopes);
    const [cancelled, raised] = tasks as unknown as [BegunTask, BegunTask];
    expect(await driver.ledger.cancel(cancelled.id)).toBe('ok');
    expect(await driver.commit(cancelled)).toBe('stale');
    const above = raised.epoch + 5;
    expect(await driver.ledger.raiseEpoch(raised, above)).toEqual({
      status: 'ok',
      epoch: above + 1,
    });
    expect(await driver.commit(raised)).toBe('stale');
    await driver.crash(worker);
    const { task: next } = await driver.beginWaiting(raised.envelope);
    expect(await driver.commit(raised)).toBe('stale');
    expect(await driver.commit(next)).toBe('ok');
    expect(await driver.state(cancelled.id)).toBe('cancelled');
  });
});
