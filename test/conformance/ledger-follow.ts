import { describe, expect, it } from 'vitest';
import {
  endedKey,
  type AfterEntry,
  type ChordPart,
  type EndedTask,
} from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import { EMBED } from '../../src/task/signature.ts';
import { HOUR, MINUTE, makeEnvelope, unique } from './envelopes.ts';
import { sampleError, type LedgerDriver } from './ledger-driver.ts';

type Way = (driver: LedgerDriver, envelope: Envelope) => Promise<number>;

/** Every way in which a task ends without success; returns the epoch it ended in. */
const ENDINGS: readonly (readonly [string, EndedTask['how'], Way])[] = [
  [
    'fails for the last time',
    'dead',
    async (driver, envelope) => {
      const { task } = await driver.running(envelope);
      await driver.fail(task, { delayMs: null });
      return 1;
    },
  ],
  [
    'is buried',
    'dead',
    async (driver, envelope) => {
      const { task } = await driver.running(envelope);
      await driver.bury(task);
      return 1;
    },
  ],
  [
    'exceeds its crash budget',
    'dead',
    async (driver, envelope) => {
      const { worker } = await driver.running(envelope, { crashBudgets: { '*': 0 } });
      await driver.crash(worker);
      return 1;
    },
  ],
  [
    'is cancelled while it waits',
    'cancelled',
    async (driver, envelope) => {
      await driver.put(envelope);
      await driver.ledger.cancel(envelope.id);
      return 0;
    },
  ],
  [
    'is cancelled while it runs',
    'cancelled',
    async (driver, envelope) => {
      await driver.running(envelope);
      await driver.ledger.cancel(envelope.id);
      return 1;
    },
  ],
  [
    'was cancelled before its message arrived',
    'cancelled',
    async (driver, envelope) => {
      await driver.ledger.cancel(envelope.id);
      const { worker } = await driver.open();
      // Two copies at once and one later: the task ends once.
      await driver.begin(worker, { messages: [envelope, envelope] });
      await driver.begin(worker, { messages: [envelope] });
      return 0;
    },
  ],
  [
    'was cancelled before it was parked',
    'cancelled',
    async (driver, envelope) => {
      await driver.ledger.cancel(envelope.id);
      await driver.put(envelope, envelope);
      await driver.put(envelope);
      return 0;
    },
  ],
  [
    'expires while it waits',
    'expired',
    async (driver, envelope) => {
      const late = { ...envelope, expiresMs: (await driver.nowMs()) - MINUTE };
      await driver.put(late);
      const { worker } = await driver.open();
      await driver.begin(worker, { queues: [envelope.queue], limit: 1 });
      return 0;
    },
  ],
  [
    'arrives too late as a message',
    'expired',
    async (driver, envelope) => {
      const late = { ...envelope, expiresMs: (await driver.nowMs()) - MINUTE };
      const { worker } = await driver.open();
      await driver.begin(worker, { messages: [late] });
      return 0;
    },
  ],
];

async function entriesAbout(driver: LedgerDriver, id: string): Promise<readonly AfterEntry[]> {
  const all = await driver.ledger.after.list(0, 10_000);
  return all.filter(({ key }) => key.startsWith(`${id}/`));
}

/** Follow-ups of tasks that did not succeed, and the counting of chords. */
export function followSuite(driver: () => LedgerDriver): void {
  describe('the follow-up of a task that did not succeed', () => endings(driver));
  describe('a chord', () => chords(driver));
}

function endings(driver: () => LedgerDriver): void {
  it.each(ENDINGS)('is written when the task %s', async (_, how, end) => {
    const envelope = makeEnvelope();
    const epoch = await end(driver(), envelope);
    const [entry, ...others] = await entriesAbout(driver(), envelope.id);
    expect(others).toEqual([]);
    if (entry === undefined || !('ended' in entry)) throw new Error('nothing was written');
    const { id, name, queue, priority, version, digest } = envelope;
    expect(entry).toMatchObject({
      key: endedKey(id, epoch),
      ended: { how, epoch, envelope: { id, name, queue, priority, version, digest } },
    });
    // Views compare by content, not by the kind of buffer that a driver gives.
    expect([...entry.ended.envelope.body]).toEqual([...envelope.body]);
    expect([...entry.ended.envelope.options]).toEqual([...envelope.options]);
    await driver().ledger.after.strike([entry.key]);
    expect(await entriesAbout(driver(), id)).toEqual([]);
  });

  it.each(ENDINGS)(
    'is written only for a sender that waits for an answer, where the task has no links and %s',
    async (_, how, end) => {
      const envelope = makeEnvelope({ embed: EMBED });
      await end(driver(), envelope);
      expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
      const asked = makeEnvelope({ embed: EMBED, options: toBytes('{"replyTo":"q"}') });
      const epoch = await end(driver(), asked);
      const entries = await entriesAbout(driver(), asked.id);
      expect(entries).toMatchObject([{ key: endedKey(asked.id, epoch), ended: { how } }]);
      await driver().ledger.after.strike(entries.map(({ key }) => key));
    },
  );

  it('is written once for a task that was cancelled before it arrived, and its tombstone stays', async () => {
    const envelope = makeEnvelope();
    await driver().ledger.cancel(envelope.id);
    await driver().put(envelope);
    await driver().ledger.after.strike([endedKey(envelope.id, 0)]);
    await driver().put(envelope);
    const { worker } = await driver().open();
    const reply = await driver().begin(worker, { messages: [envelope] });
    expect(reply).toMatchObject({ begun: [], answers: ['held'] });
    expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
    expect(await driver().state(envelope.id)).toBe('cancelled');
  });

  it('is written again for a second death', async () => {
    const envelope = await driver().dead();
    await driver().ledger.revive(envelope.id, 1);
    const { task } = await driver().beginWaiting(envelope);
    await driver().fail(task, { delayMs: null });
    const keys = (await entriesAbout(driver(), envelope.id)).map(({ key }) => key);
    expect(keys.toSorted()).toEqual([endedKey(envelope.id, 1), endedKey(envelope.id, 2)]);
    await driver().ledger.after.strike(keys);
  });

  it('is not written again when the dead letter is purged', async () => {
    const envelope = await driver().dead(makeEnvelope({ name: unique('purged') }));
    await driver().ledger.after.strike([endedKey(envelope.id, 1)]);
    await driver().fixture.advance(MINUTE);
    const ages = { olderThanDeadMs: 0, olderThanCreatedMs: null };
    const request = { ...ages, taskName: envelope.name, limit: 10, isDryRun: false };
    expect((await driver().ledger.purgeDead(request)).counts).toHaveLength(1);
    expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
  });

  it('is not written again by a repeated step', async () => {
    const { task, envelope } = await driver().running();
    await driver().fail(task, { delayMs: null });
    await driver().ledger.after.strike([endedKey(envelope.id, 1)]);
    expect(await driver().fail(task, { delayMs: null })).toBe('ok');
    expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
  });

  it('is not written while the task may still succeed', async () => {
    const { task, envelope, worker } = await driver().running();
    await driver().fail(task, { delayMs: 0 });
    const again = await driver().beginWaiting(envelope, { worker });
    await driver().release(again.task);
    const third = await driver().beginWaiting(envelope, { worker });
    await driver().crash(worker);
    expect(third.task.epoch).toBe(3);
    expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
  });

  it('is the one named by the commit when the task is done or discarded', async () => {
    const done = await driver().done();
    const discarded = await driver().done(makeEnvelope(), {
      outcome: { kind: 'discarded', why: 'nothing to do' },
    });
    expect(await entriesAbout(driver(), done.id)).toEqual([]);
    expect(await entriesAbout(driver(), discarded.id)).toEqual([]);
  });

  it('is not written where the bytes are not those that were sent', async () => {
    const { task, envelope } = await driver().running();
    await driver().bury(task, 'ERR_DIGEST');
    const message = makeEnvelope();
    await driver().ledger.bury([
      { kind: 'message', envelope: message, reason: 'ERR_UNDECODABLE', error: sampleError('no') },
    ]);
    expect(await entriesAbout(driver(), envelope.id)).toEqual([]);
    expect(await entriesAbout(driver(), message.id)).toEqual([]);
  });
}

function chords(driver: () => LedgerDriver): void {
  const partsOf = (size: number): readonly (ChordPart & { readonly result: string })[] => {
    const groupId = unique('chord');
    return Array.from({ length: size }, (_, index) => ({
      groupId,
      index,
      size,
      taskId: `${groupId}-${index}`,
      result: `{"n":${index}.0,"big":1180591620717411303425,"text":"a\\u0000b"}`,
    }));
  };
  const results = (parts: readonly ChordPart[]) => parts.map(({ result }) => result);

  it('completes with its last part, and returns the results in order', async () => {
    const parts = partsOf(3);
    const [first, second, third] = parts as [ChordPart, ChordPart, ChordPart];
    expect(await driver().ledger.joinChord(third)).toEqual({ status: 'open' });
    expect(await driver().ledger.joinChord(first)).toEqual({ status: 'open' });
    expect(await driver().ledger.joinChord(second)).toEqual({
      status: 'complete',
      results: results(parts),
      isSigned: false,
    });
  });

  it('counts a part once, however often it is reported', async () => {
    const [first, second] = partsOf(2) as [ChordPart, ChordPart];
    for (let time = 0; time < 3; time++)
      expect(await driver().ledger.joinChord(first)).toEqual({ status: 'open' });
    const complete = { status: 'complete', results: results([first, second]), isSigned: false };
    expect(await driver().ledger.joinChord(second)).toEqual(complete);
    expect(await driver().ledger.joinChord(first)).toEqual(complete);
  });

  it('is not completed again by a part that is reported after its body was sent', async ctx => {
    const { ledger } = driver();
    if (ledger.closeChord === undefined) return ctx.skip();
    const parts = partsOf(2);
    for (const part of parts) await ledger.joinChord(part);
    await ledger.closeChord(parts[0]?.groupId ?? '');
    for (const part of parts) expect(await ledger.joinChord(part)).toEqual({ status: 'open' });
  });

  it('reports its completion to one of the parts that complete it at the same time', async () => {
    for (let round = 0; round < 10; round++) {
      const parts = partsOf(8);
      const answers = await Promise.all(parts.map(part => driver().ledger.joinChord(part)));
      const complete = answers.filter(({ status }) => status === 'complete');
      // A Python worker would run every body that it receives.
      expect(complete).toEqual([{ status: 'complete', results: results(parts), isSigned: false }]);
    }
  });

  it('fails with a failed part, until a result replaces that part', async () => {
    const [first, second] = partsOf(2) as [ChordPart, ChordPart];
    const failure = { ...first, result: null };
    expect(await driver().ledger.joinChord(failure)).toEqual({ status: 'failed' });
    expect(await driver().ledger.joinChord(second)).toEqual({ status: 'open' });
    expect(await driver().ledger.joinChord(failure)).toEqual({ status: 'failed' });
    const complete = { status: 'complete', results: results([first, second]), isSigned: false };
    expect(await driver().ledger.joinChord(first)).toEqual(complete);
    // Reported late: the part has succeeded since.
    expect(await driver().ledger.joinChord(failure)).toEqual(complete);
  });

  it('reports whether all results come from signed tasks, also when a part is repeated', async () => {
    const signed = (part: ChordPart): ChordPart => ({ ...part, isSigned: true });
    const complete = async (parts: readonly ChordPart[]): Promise<unknown> => {
      const [first, second] = parts as [ChordPart, ChordPart];
      await driver().ledger.joinChord(first);
      await driver().ledger.joinChord(second);
      return await driver().ledger.joinChord(signed(second));
    };
    expect(await complete(partsOf(2).map(signed))).toMatchObject({ isSigned: true });
    const mixed = partsOf(2) as [ChordPart, ChordPart];
    expect(await complete([mixed[0], signed(mixed[1])])).toMatchObject({ isSigned: false });
    // A result that was first reported unsigned stays unsigned, even if a signed task reports it again.
    const late = partsOf(2) as [ChordPart, ChordPart];
    expect(await complete([signed(late[0]), late[1]])).toMatchObject({ isSigned: false });
    const made = partsOf(2) as [ChordPart, ChordPart];
    await driver().ledger.joinChord({ ...made[0], result: null });
    expect(await complete(made.map(signed))).toMatchObject({ isSigned: true });
  });

  it('stays open while its size is unknown', async () => {
    const [part] = partsOf(1) as [ChordPart];
    expect(await driver().ledger.joinChord({ ...part, size: null })).toEqual({ status: 'open' });
  });

  it('is forgotten a day after it was completed, and not earlier', async () => {
    const [whole, open] = [partsOf(2), partsOf(2)];
    for (const part of [...whole, ...open.slice(1)]) await driver().ledger.joinChord(part);
    await driver().fixture.advance(23 * HOUR);
    await driver().ledger.prune(100);
    expect(await driver().ledger.joinChord(whole[0] as ChordPart)).toMatchObject({
      status: 'complete',
    });
    await driver().fixture.advance(2 * HOUR);
    await driver().ledger.prune(100);
    expect(await driver().ledger.joinChord(whole[0] as ChordPart)).toEqual({ status: 'open' });
    expect(await driver().ledger.joinChord(open[0] as ChordPart)).toMatchObject({
      status: 'complete',
    });
  });
}
