import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewTask, WriteAnswer } from '../../src/outbox/outbox-writer.ts';
import { endedKey } from '../../src/ledger/ledger.ts';
import { digestOf } from '../../src/task/digest.ts';
import { toBytes } from '../../src/task/json.ts';
import { EMBED } from '../../src/task/signature.ts';
import { HOUR, MINUTE, unique } from './envelopes.ts';
import { LedgerDriver } from './ledger-driver.ts';
import type { OutboxFixture } from './outbox-store.ts';
import type { ResultFixture } from './result-store.ts';

const DAY = 24 * HOUR;

/** A sender whose ledger is in the database of its outbox. */
export interface StraightFixture extends OutboxFixture, Pick<ResultFixture, 'results'> {
  readonly ledger: NonNullable<OutboxFixture['ledger']>;
  /** Writes in one transaction, which is rolled back if that is asked for. */
  send(tasks: readonly NewTask[], isRolledBack?: boolean): Promise<readonly WriteAnswer[]>;
}

function newTask(making: Partial<NewTask> & { readonly input?: string } = {}): NewTask {
  const { input = 'a', ...fields } = making;
  const id = fields.id ?? unique('task');
  const call = { args: '[]', kwargs: JSON.stringify({ input }) };
  const named = { name: 'conformance.task', version: 1, id };
  const embed = fields.embed ?? EMBED;
  return {
    queue: unique('queue'),
    priority: 0,
    settings: '{}',
    etaMs: null,
    expiresMs: null,
    isIdDrawn: fields.id === undefined,
    idempotencyKey: null,
    fingerprint: Buffer.from(input).toString('hex'),
    orderingKey: null,
    parksKey: false,
    redacted: null,
    ...named,
    ...fields,
    call,
    embed,
    digest: digestOf({ ...named, body: toBytes(`[${call.args},${call.kwargs},${embed}]`) }),
  };
}

const LINK =
  '{"callbacks":null,"errbacks":[{"task":"x","args":[],"kwargs":{},"options":{},"subtask_type":null,"immutable":true}],"chain":null,"chord":null}';

/** What a `send` must do where it writes into the ledger. */
export function describeStraightSend(title: string, make: () => Promise<StraightFixture>): void {
  describe(`a send into the ledger: ${title}`, () => {
    let fixture: StraightFixture;
    beforeAll(async () => void (fixture = await make()));
    afterAll(() => fixture.dispose());
    const driver = (): LedgerDriver => new LedgerDriver(fixture);
    const kinds = async (...sent: Parameters<StraightFixture['send']>): Promise<string[]> =>
      (await fixture.send(...sent)).map(({ kind }) => kind);

    const begun = async (...tasks: readonly NewTask[]): Promise<string[]> => {
      const { worker } = await driver().open();
      const queues = [...new Set(tasks.map(({ queue }) => queue))];
      const reply = await driver().begin(worker, { queues, limit: 100 });
      return reply.begun.map(({ id }) => id);
    };

    it('is begun without a relay, with the bytes that were sent', async () => {
      const plain = newTask({ priority: 3, settings: '{"headers":{"region":"ü\\\\"}}' });
      const long = newTask({ queue: plain.queue, input: 'ä\\ "quoted" \u0000' });
      expect(await kinds([plain])).toEqual(['new']);
      expect(await kinds([long, newTask({ queue: plain.queue })])).toEqual(['new', 'new']);
      expect(await fixture.countRows([plain.id, long.id])).toBe(0);
      const { worker } = await driver().open();
      const reply = await driver().begin(worker, { queues: [plain.queue], limit: 3 });
      const byId = new Map(reply.begun.map(task => [task.id, task]));
      for (const task of [plain, long])
        expect(byId.get(task.id)?.envelope).toMatchObject({
          name: task.name,
          digest: task.digest,
          priority: task.priority,
          body: toBytes(`[[],${task.call.kwargs},${EMBED}]`),
          options: toBytes(task.settings),
          etaMs: null,
          expiresMs: null,
        });
    });

    it('leaves nothing when it is rolled back', async () => {
      const [one, chosen] = [
        newTask(),
        newTask({ id: unique('chosen'), idempotencyKey: unique('key') }),
      ];
      await fixture.send([one], true);
      await fixture.send([chosen], true);
      expect(await begun(one, chosen)).toEqual([]);
      expect(await kinds([chosen])).toEqual(['new']);
    });

    it('keeps the order of a batch, and of priorities', async () => {
      const queue = unique('queue');
      const tasks = [0, 9, 0, 5].map(priority => newTask({ queue, priority }));
      await fixture.send(tasks);
      const [first, urgent, second, middle] = tasks.map(({ id }) => id);
      expect(await begun(...tasks)).toEqual([urgent, middle, first, second]);
    });

    it('waits until its eta, and expires', async () => {
      const nowMs = await fixture.nowMs();
      const queue = unique('queue');
      const single = newTask({ queue, etaMs: nowMs + HOUR });
      const [later, late] = [
        newTask({ queue, etaMs: nowMs + 2 * HOUR }),
        newTask({ queue, expiresMs: nowMs + MINUTE }),
      ];
      await fixture.send([single]);
      await fixture.send([later, late]);
      const { worker } = await driver().open({ leaseMs: 10 * HOUR });
      await fixture.advance(2 * MINUTE);
      const first = await driver().begin(worker, { queues: [queue], limit: 5 });
      expect(first.expired.map(({ id }) => id)).toEqual([late.id]);
      expect(first.begun).toEqual([]);
      expect(first.nextDueMs).toBeGreaterThan(50 * MINUTE);
    });

    it('under an id that the ledger knows in any state is the same task, or refused', async () => {
      const { worker } = await driver().open();
      const sent = newTask({ id: unique('known') });
      const again = async (): Promise<string[]> => [
        ...(await kinds([sent])),
        ...(await kinds([newTask({ id: sent.id, input: 'other' })])),
        ...(await kinds([newTask(), sent])),
      ];
      const turnedAway = ['earlier', 'id-mismatch', 'new', 'earlier'];
      expect(await kinds([sent])).toEqual(['new']);
      expect(await again()).toEqual(turnedAway);
      const { begun: runs } = await driver().begin(worker, { queues: [sent.queue], limit: 5 });
      expect(runs).toHaveLength(1);
      expect(await again()).toEqual(turnedAway);
      for (const run of runs) expect(await driver().commit(run)).toBe('ok');
      expect(await again()).toEqual(turnedAway);
      expect(await begun(sent)).toEqual([]);
      expect((await fixture.results.read(sent.id)).ending).toBe('done');
    });

    it('under an id that waits in the outbox is the same task, or refused', async () => {
      const id = unique('row');
      const row = newTask({ id, orderingKey: unique('order') });
      expect(await kinds([row])).toEqual(['new']);
      expect(await fixture.countRows([id])).toBe(1);
      expect(await kinds([newTask({ id, queue: row.queue })])).toEqual(['earlier']);
      expect(await kinds([newTask({ id, input: 'other' })])).toEqual(['id-mismatch']);
      expect(await begun(row)).toEqual([]);
      await fixture.store.move?.(100);
      expect(await begun(row)).toEqual([id]);
    });

    it('of a task that was cancelled before it came brings nothing back, and tells what follows', async () => {
      const { ledger } = fixture;
      const [alone, followed] = [
        newTask({ id: unique('cancelled') }),
        newTask({ id: unique('cancelled'), embed: LINK }),
      ];
      for (const task of [alone, followed]) {
        expect(await ledger.cancel(task.id)).toBe('ok');
        expect(await kinds([task])).toEqual(['earlier']);
        expect(await begun(task)).toEqual([]);
        expect((await fixture.results.read(task.id)).ending).toBe('cancelled');
      }
      const ofFollowed = async (): Promise<number> =>
        (await ledger.after.list(0, 1_000)).filter(({ key }) => key === endedKey(followed.id, 0))
          .length;
      expect(await ofFollowed()).toBe(1);
      await ledger.after.strike([endedKey(followed.id, 0)]);
      expect(await kinds([followed])).toEqual(['earlier']);
      expect(await ofFollowed()).toBe(0);
    });

    it('is cancelled like any other', async () => {
      const sent = newTask();
      await fixture.send([sent]);
      expect(await fixture.ledger.cancel(sent.id)).toBe('ok');
      expect(await begun(sent)).toEqual([]);
    });

    it('with a key is one task, for a day and until it was begun', async () => {
      const key = unique('key');
      const keyed = (making: Parameters<typeof newTask>[0] = {}): NewTask =>
        newTask({ idempotencyKey: key, ...making });
      const first = keyed({ etaMs: (await fixture.nowMs()) + 2 * DAY });
      expect(await kinds([first])).toEqual(['new']);
      const [answer] = await fixture.send([keyed()]);
      expect(answer).toEqual({ kind: 'earlier', id: first.id });
      expect(await kinds([keyed({ input: 'other' })])).toEqual(['key-mismatch']);
      expect(await kinds([newTask(), keyed(), keyed({ input: 'other' })])).toEqual([
        'new',
        'earlier',
        'key-mismatch',
      ]);
      await fixture.advance(DAY + MINUTE);
      await fixture.store.prune(1_000);
      expect(await kinds([keyed()])).toEqual(['earlier']);
      expect(await fixture.ledger.cancel(first.id)).toBe('ok');
      expect(await kinds([keyed()])).toEqual(['new']);
    });

    it('writes what needs a relay into the outbox, in the same statement', async () => {
      const order = unique('order');
      const queue = unique('queue');
      const [ordered, limited, straight] = [
        newTask({ queue, orderingKey: order }),
        newTask({ queue, settings: '{"limited":true}' }),
        newTask({ queue }),
      ];
      expect(await kinds([ordered, limited, straight])).toEqual(['new', 'new', 'new']);
      expect(await kinds([newTask({ queue, orderingKey: order })])).toEqual(['new']);
      expect(await fixture.countRows([ordered.id, limited.id, straight.id])).toBe(2);
      expect(await begun(straight)).toEqual([straight.id]);
    });
  });
}
