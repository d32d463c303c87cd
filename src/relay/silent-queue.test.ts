import { describe, expect, it } from 'vitest';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import { noFaults } from '../runtime/runtime.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import type { RelayDeps } from './relay-deps.ts';
import { Relay } from './relay.ts';

/** A relay whose queue `stuck` never confirms, under a clock that the test moves. */
function setup(publishConcurrency: number) {
  const time = new VirtualTime();
  const { clock } = time;
  const outbox = new MemoryOutboxStore({ clock });
  const confirmedAt: number[] = [];
  const events: string[] = [];
  const broker: RelayDeps['broker'] = {
    hasQueues: true,
    publish: messages =>
      new Promise(resolve => {
        if (messages.some(({ queue }) => queue === 'stuck')) return;
        time.after(5, () => {
          confirmedAt.push(...messages.map(() => time.nowMs));
          resolve(messages.map(() => ({ status: 'confirmed' })));
        });
      }),
  };
  let token = 0;
  const runtime = {
    clock,
    random: { next: () => 0.5, token: () => `token${++token}` },
    faultPoint: noFaults,
    log: silentLogger,
    emit: (name: string) => void events.push(name),
  };
  const settings = {
    batchSize: 100,
    idleTimeMs: 100,
    backoffTimeMs: 120_000,
    maxBackoffMs: 3_600_000,
    jitter: 'tenth',
    maxRetries: 5,
    staleTimeoutMs: 300_000,
    sendTimeoutMs: 10_000,
    shutdownTimeoutMs: 30_000,
    brokerOutageCooldownMs: 30_000,
    publishConcurrency,
    queueSnapshotRefreshMs: 3_600_000,
  } as const;
  const reads: RelayDeps['reads'] = { sample: () => Promise.reject(new Error('no figures')) };
  const relay = new Relay({ outbox, reads, broker, runtime, settings });
  const write = (...queues: readonly string[]): void => {
    const tx = outbox.begin();
    outbox.write(
      tx,
      queues.map(queue => makeEnvelope({ queue })),
    );
    tx.commit();
  };
  return { time, outbox, relay, write, confirmedAt, events };
}

const mixed = (rows: number): string[] =>
  Array.from({ length: rows }, (_, index) => (index % 10 === 0 ? 'stuck' : 'good'));

describe.each([1, 50])('a queue that never confirms, with a window of %i', window => {
  it('delays other queues only until it is noticed, opens no breaker and spends no retry', async () => {
    const { time, outbox, relay, write, confirmedAt, events } = setup(window);
    const stop = new AbortController();
    void relay.run(stop.signal);
    write('good');
    await time.runUntil(50);
    for (let second = 0; second < 60; second++) {
      write(...mixed(20));
      await time.runUntil(time.nowMs + 1_000);
    }
    // The last message may wait behind a probe of two seconds.
    await time.runUntil(time.nowMs + 3_000);
    expect(confirmedAt).toHaveLength(1 + 60 * 18);
    const gaps = confirmedAt.map((at, index) => at - (confirmedAt[index - 1] ?? at));
    expect(Math.max(...gaps)).toBeLessThan(3_500);
    expect(events).not.toContain('relay:breaker-opened');
    expect([...outbox.rows.values()].every(({ retries }) => retries === 0)).toBe(true);
    expect(outbox.rows.size).toBe(60 * 2);
  });

  it('makes drain() fail', async () => {
    const { time, relay, write, confirmedAt } = setup(window);
    write(...mixed(20));
    const draining = relay.drain(new AbortController().signal).catch((error: unknown) => error);
    await time.runUntil(60_000);
    expect(confirmedAt).toHaveLength(18);
    expect(await draining).toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
  });
});
