import { describe, expect, it } from 'vitest';
import type { ConsumerReport, ControlStore } from '../../src/ledger/control-store.ts';
import { unique } from './envelopes.ts';

export interface ControlFixture {
  readonly control: ControlStore;
  /** Opens the incarnation, where workers are known by it. */
  open?(report: ConsumerReport): Promise<void>;
  advance(ms: number): Promise<void>;
}

/** Everything a control store must do. */
export function describeControlStore(name: string, fixture: () => ControlFixture): void {
  describe(`control store: ${name}`, () => {
    async function live(queues: readonly string[]): Promise<ConsumerReport> {
      const worker = unique('worker');
      const report = {
        worker,
        process: 'p',
        host: 'h',
        pid: 1,
        leaseMs: 60_000,
        queues,
        running: 0,
      };
      await fixture().open?.(report);
      await fixture().control.look(report);
      return report;
    }

    it('returns the paused queues to every worker until they are resumed', async () => {
      const { control } = fixture();
      const [one, two] = [unique('queue'), unique('queue')];
      const worker = await live([one]);
      expect(await control.pause(one)).toBe(true);
      expect(await control.pause(two)).toBe(true);
      expect(await control.pause(one)).toBe(false);
      expect((await control.look(worker)).paused).toEqual(expect.arrayContaining([one, two]));
      expect(await control.resume(two)).toBe(true);
      expect(await control.resume(two)).toBe(false);
      const paused = await control.paused();
      expect(paused).toContain(one);
      expect(paused).not.toContain(two);
      expect((await control.look(worker)).paused).toEqual(paused);
    });

    it('lists living workers with their latest data', async () => {
      const { control } = fixture();
      const [queue, other] = [unique('queue'), unique('queue')];
      const { leaseMs: _, ...shown } = await live([queue]);
      const found = async () =>
        (await control.consumers()).find(({ worker }) => worker === shown.worker);
      expect(await found()).toEqual({ ...shown, isDraining: false });
      await control.look({ ...shown, leaseMs: 60_000, queues: [queue, other] });
      expect((await found())?.queues).toEqual([queue, other]);
      await fixture().advance(61_000);
      expect(await found()).toBeUndefined();
    });

    it('asks only the named worker to drain', async () => {
      const { control } = fixture();
      const [one, other] = [await live(['a']), await live(['a'])];
      expect(await control.drain(unique('nobody'))).toBe(false);
      expect(await control.drain(one.worker)).toBe(true);
      expect((await control.look(one)).isDraining).toBe(true);
      expect((await control.look(other)).isDraining).toBe(false);
    });
  });
}
