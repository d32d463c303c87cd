import { describe, expect, it } from 'vitest';
import { MemoryBroker } from '../adapters/memory/memory-broker.ts';
import { makeEnvelopes } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../../test/sim/virtual-time.ts';
import { TakeAhead } from './take-ahead.ts';

const QUEUES = ['q'];

async function setup({ isPushing = false, isLedgerAlone = false } = {}) {
  const time = new VirtualTime();
  const clock = {
    now: () => time.nowMs,
    monotonic: () => time.nowMs,
    timer: (ms: number, fn: () => void) => time.after(ms, fn),
  };
  const broker = new MemoryBroker();
  const connection = broker.connect();
  await connection.publish(makeEnvelopes(6, { queue: 'q' }));
  const silentMs = isLedgerAlone ? {} : { silentMs: () => 0 };
  const ahead = new TakeAhead(Object.assign(connection, { isPushing, ...silentMs }), clock, 4);
  const runShort = (ms: number, bytes = 100): void => {
    for (let run = 0; run < 200; run++) ahead.noteRun(ms, bytes);
  };
  return { time, broker, ahead, runShort };
}

describe('a worker that takes ahead', () => {
  it('does not before it knows that tasks are short', async () => {
    const { broker, ahead, runShort } = await setup();
    ahead.ask(QUEUES, 2);
    runShort(100);
    ahead.ask(QUEUES, 2);
    await ahead.take(QUEUES, 1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
  });

  it('asks the broker at once where nothing is on its way: a moment later the queue may be left', async () => {
    const { broker, ahead } = await setup({ isPushing: true });
    const taking = ahead.take(QUEUES, 1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
    await taking;
  });

  it('holds one batch and no more, and fills it up when half of it is handed out', async () => {
    const { broker, ahead, runShort } = await setup();
    runShort(1);
    ahead.ask(QUEUES, 4);
    ahead.ask(QUEUES, 4);
    expect(await ahead.take(QUEUES, 1)).toHaveLength(1);
    ahead.ask(QUEUES, 4);
    expect(broker.count()).toEqual({ queued: 2, held: 4 });
    expect(await ahead.take(QUEUES, 1)).toHaveLength(1);
    ahead.ask(QUEUES, 4);
    expect(await ahead.take(QUEUES, 5)).toHaveLength(4);
    expect(broker.count()).toEqual({ queued: 0, held: 6 });
  });

  it('begins so many early that they wait for a place a moment at most', async () => {
    const { ahead, runShort } = await setup();
    const early = [1_000, 50, 20, 10, 4, 1].map(ms => {
      runShort(ms);
      return ahead.early;
    });
    expect(early).toEqual([1, 1, 1, 3, 9, 16]);
  });

  it('begins fewer early where all that crashed comes back at once', async () => {
    const { ahead, runShort } = await setup({ isLedgerAlone: true });
    runShort(1);
    expect(ahead.early).toBe(8);
  });

  it('begins nothing early while tasks come back from crashes', async () => {
    const { ahead, runShort } = await setup();
    runShort(1);
    ahead.noteBegun([{ crashes: 0 }, { crashes: 0 }]);
    expect(ahead.early).toBe(16);
    ahead.noteBegun([{ crashes: 0 }, { crashes: 1 }]);
    expect(ahead.early).toBe(1);
    runShort(1);
    expect(ahead.early).toBe(16);
  });

  it('holds less of large messages, none of very large ones, and begins none of them early', async () => {
    const { broker, ahead, runShort } = await setup();
    runShort(1, 12 * 2 ** 20);
    expect(ahead.early).toBe(1);
    ahead.ask(QUEUES, 4);
    expect(await ahead.take(QUEUES, 4)).toHaveLength(2);
    runShort(1, 40 * 2 ** 20);
    ahead.ask(QUEUES, 4);
    expect(await ahead.take(QUEUES, 1)).toHaveLength(1);
    expect(broker.count()).toEqual({ queued: 3, held: 3 });
    // They are forgotten in time.
    for (let turn = 0; turn < 5; turn++) runShort(1);
    expect(ahead.early).toBe(16);
  });

  it('gives back what waits for too long, and counts tasks as long from then on', async () => {
    const { time, broker, ahead, runShort } = await setup();
    runShort(1);
    ahead.ask(QUEUES, 2);
    await time.runUntil(100);
    await ahead.giveBackLate();
    expect(broker.count()).toEqual({ queued: 4, held: 2 });
    await time.runUntil(100 + (ahead.patienceMs ?? 0));
    await ahead.giveBackLate();
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
    ahead.ask(QUEUES, 2);
    await time.runUntil(1_000);
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
  });

  it('gives nothing back while what it holds is handed out and filled up', async () => {
    const { time, broker, ahead, runShort } = await setup();
    runShort(1);
    ahead.ask(QUEUES, 2);
    for (const at of [100, 200, 300]) {
      await time.runUntil(at);
      expect(await ahead.take(QUEUES, 1)).toHaveLength(1);
      ahead.ask(QUEUES, 2);
    }
    // Never empty since the first came, 300 ms ago.
    await time.runUntil(301);
    await ahead.giveBackLate();
    expect(broker.count()).toEqual({ queued: 1, held: 5 });
  });

  it('takes nothing ahead from a broker that pushes', async () => {
    const { broker, ahead, runShort } = await setup({ isPushing: true });
    runShort(1);
    ahead.ask(QUEUES, 2);
    expect(await ahead.take(QUEUES, 1)).toHaveLength(1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
  });

  it('gives back what was asked for and has not come yet', async () => {
    const { broker, ahead, runShort } = await setup();
    runShort(1);
    ahead.ask(QUEUES, 2);
    await ahead.giveBack();
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
  });
});
