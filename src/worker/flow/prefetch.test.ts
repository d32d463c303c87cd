import { describe, expect, it } from 'vitest';
import type { Demand } from '../../broker/demand.ts';
import { MemoryBroker } from '../../testing/memory/memory-broker.ts';
import { makeEnvelopes } from '../../../test/conformance/envelopes.ts';
import { VirtualTime } from '../../testing/virtual-time.ts';
import { Flow } from './flow.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { Prefetch } from './prefetch.ts';

const QUEUES = ['q'];

async function setup({ isPushing = false, slots = 1 } = {}) {
  const time = new VirtualTime();
  const { clock } = time;
  const broker = new MemoryBroker();
  const connection = broker.connect();
  await connection.publish(makeEnvelopes(6, { queue: 'q' }));
  const counts = { slots: { used: 0 }, batches: { promised: 0 }, runs: { size: 0, bytes: 0 } };
  const options = {
    concurrency: slots,
    queues: { q: 1 },
    ackOn: 'commit' as const,
    hasBroker: true,
  };
  const flow = new Flow(clock, options, counts);
  const runtime = { clock, random: { next: () => 0.5, token: () => 't' }, log: silentLogger };
  const obeyed: unknown[] = [];
  const pushing = { pushWithin: (demand: Demand) => void obeyed.push(demand) };
  const source = isPushing ? Object.assign(connection, pushing) : connection;
  const prefetch = new Prefetch(source, runtime, flow);
  const runShort = (ms: number, bytes = 100): void => {
    for (let run = 0; run < 200; run++) flow.ran(ms, bytes);
  };
  return { time, broker, prefetch, runShort, obeyed, flow };
}

describe('prefetch', () => {
  it('does not start before tasks are known to be short', async () => {
    const { broker, prefetch, runShort } = await setup();
    prefetch.ask(QUEUES);
    runShort(100);
    prefetch.ask(QUEUES);
    await prefetch.take(QUEUES, 1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
  });

  it('asks the broker in the same tick when no request is running', async () => {
    const { broker, prefetch } = await setup({ isPushing: true });
    const taking = prefetch.take(QUEUES, 1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
    await taking;
  });

  it('holds at most one batch, and refills it when half of it is begun', async () => {
    const { broker, prefetch, runShort } = await setup({ slots: 2 });
    runShort(15);
    prefetch.ask(QUEUES);
    prefetch.ask(QUEUES);
    expect(await prefetch.take(QUEUES, 1)).toHaveLength(1);
    prefetch.ask(QUEUES);
    expect(broker.count()).toEqual({ queued: 2, held: 4 });
    expect(await prefetch.take(QUEUES, 1)).toHaveLength(1);
    prefetch.ask(QUEUES);
    expect(await prefetch.take(QUEUES, 5)).toHaveLength(4);
    expect(broker.count()).toEqual({ queued: 0, held: 6 });
  });

  it('gives shelved messages back after a minute', async () => {
    const { time, broker, prefetch } = await setup();
    prefetch.shelve(await prefetch.take(QUEUES, 2));
    await time.runUntil(59_000);
    await prefetch.take(QUEUES, 4);
    expect(broker.count()).toEqual({ queued: 0, held: 6 });
    await time.runUntil(61_000);
    await prefetch.take(QUEUES, 0);
    expect(broker.count()).toEqual({ queued: 2, held: 4 });
  });

  it('gives back messages that wait too long, and treats tasks as long from then on', async () => {
    const { time, broker, prefetch, runShort } = await setup();
    runShort(15);
    prefetch.ask(QUEUES);
    await time.runUntil(100);
    await prefetch.giveBackLate();
    expect(broker.count()).toEqual({ queued: 4, held: 2 });
    await time.runUntil(100 + (prefetch.maxSleepMs ?? 0));
    await prefetch.giveBackLate();
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
    prefetch.ask(QUEUES);
    await time.runUntil(1_000);
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
  });

  it('gives no messages back while they are begun and refilled', async () => {
    const { time, broker, prefetch, runShort } = await setup();
    runShort(15);
    prefetch.ask(QUEUES);
    for (const at of [100, 200, 300]) {
      await time.runUntil(at);
      expect(await prefetch.take(QUEUES, 1)).toHaveLength(1);
      prefetch.ask(QUEUES);
    }
    // It has not been empty since the first message arrived 300 ms ago.
    await time.runUntil(301);
    await prefetch.giveBackLate();
    expect(broker.count()).toEqual({ queued: 1, held: 5 });
  });

  it('takes no messages early from a broker that pushes', async () => {
    const { broker, prefetch, runShort, obeyed, flow } = await setup({ isPushing: true });
    expect(obeyed).toEqual([flow.windows]);
    runShort(15);
    prefetch.ask(QUEUES);
    expect(await prefetch.take(QUEUES, 1)).toHaveLength(1);
    expect(broker.count()).toEqual({ queued: 5, held: 1 });
  });

  it('gives back messages of a request that was still running', async () => {
    const { broker, prefetch, runShort } = await setup();
    runShort(15);
    prefetch.ask(QUEUES);
    await prefetch.giveBack();
    expect(broker.count()).toEqual({ queued: 6, held: 0 });
  });
});
