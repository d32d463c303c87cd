import { describe, expect, it } from 'vitest';
import { endedKey } from '../../src/ledger/ledger.ts';
import { ids, makeEnvelope, makeEnvelopes, MINUTE, unique } from './envelopes.ts';
import type { LedgerDriver } from './ledger-driver.ts';

/** Three of them are more than one call carries. */
const LARGE = 3_000_000;
/** More waiting tasks than any store expires in one call. */
const [MOST, MANY] = [500, 1_100];

export function boundsSuite(driver: () => LedgerDriver): void {
  describe('one call', () => {
    it('expires a bounded number of late tasks, and the next calls the rest', async () => {
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
        // There is more to do, so the worker must ask again soon.
        expect(reply.expired.length).toBeGreaterThan(0);
        expect(reply.nextDueMs).toBe(0);
      }
      expect(ended.toSorted()).toEqual(ids(late).toSorted());
      // Their follow-ups would be listed by other tests.
      await driver().ledger.after.strike(ids(late).map(id => endedKey(id, 0)));
    });

    it('hands out large tasks a few at a time, in their order', async () => {
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

    it('begins messages of any total size as if they were one request', async () => {
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
