import { describe, expect, it } from 'vitest';
import { endedKey } from '../../src/ledger/ledger.ts';
import { ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';
import type { LedgerDriver } from './ledger-driver.ts';

/** More than one call carries, three of them. */
const LARGE = 3_000_000;
/** More waiting tasks than any store ends in one call because they are too late. */
const [MOST, MANY] = [500, 1_100];

export function boundsSuite(driver: () => LedgerDriver): void {
  describe('the work of one call', () => {
    it('ends so many tasks that are too late, and comes to what is behind them with the next ones', async () => {
      const { worker } = await driver().open();
      const queue = unique('queue');
      const expiresMs = (await driver().nowMs()) - MINUTE;
      const late = makeEnvelopes(MANY, { queue, expiresMs });
      await driver().put(...late);
      const inTime = makeEnvelope({ queue });
      await driver().put(inTime);
      const ended: string[] = [];
      for (;;) {
        const reply = await driver().begin(worker, { queues: [queue], limit: 400 });
        expect(reply.expired.length).toBeLessThanOrEqual(MOST);
        ended.push(...ids(reply.expired));
        if (reply.begun.length > 0) {
          expect(ids(reply.begun)).toEqual([inTime.id]);
          break;
        }
        // There is more to do: whoever asks must not wait for long.
        expect(reply.expired.length).toBeGreaterThan(0);
        expect(reply.nextDueMs).toBe(0);
      }
      expect(ended.toSorted()).toEqual(ids(late).toSorted());
      // What follows so many would stand in the way of other tests that list it.
      await driver().ledger.after.strike(ids(late).map(id => endedKey(id, 0)));
    });

    it('hands out large tasks a few at a time, and all of them in their order', async () => {
      const { worker } = await driver().open();
      const queue = unique('queue');
      const args = new Uint8Array(LARGE).fill(0x61);
      const tasks = makeEnvelopes(7, { queue, args });
      for (const task of tasks) await driver().put(task);
      const begun: string[] = [];
      while (begun.length < tasks.length) {
        const reply = await driver().begin(worker, { queues: [queue], limit: 100 });
        expect([1, 2, 3]).toContain(reply.begun.length);
        begun.push(...ids(reply.begun));
      }
      expect(begun).toEqual(ids(tasks));
    });

    it('carries messages of any size in parts, as if it were one', async () => {
      const { ledger } = driver();
      const { worker } = await driver().open();
      const args = new Uint8Array(LARGE).fill(0x61);
      const messages = makeEnvelopes(3, { queue: unique('queue'), args });
      const request = driver().request(worker, { messages });
      for (const isFirst of [true, false]) {
        const reply = await ledger.begin({ ...request, isFirst });
        if (reply.status !== 'open') throw new Error('it is closed');
        expect(ids(reply.begun).toSorted()).toEqual(ids(messages).toSorted());
        expect(reply.answers).toEqual(messages.map(() => 'begun'));
      }
    });
  });
}
