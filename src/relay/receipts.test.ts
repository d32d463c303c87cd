import { describe, expect, it } from 'vitest';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import type { PublishOutcome } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import type { TaskState } from '../ledger/ledger.ts';
import type { LifeState } from '../result/result-store.ts';
import { noFaults } from '../runtime/runtime.ts';
import { toBytes } from '../task/json.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import type { ReceiptSources } from './receipts.ts';
import { Relay } from './relay.ts';

const MINUTE = 60_000;
const OK: PublishOutcome = { status: 'confirmed' };
const SETTINGS = {
  batchSize: 100,
  idleTimeMs: 1_000,
  backoffTimeMs: 1_000,
  maxBackoffMs: 1_000,
  jitter: 'tenth',
  maxRetries: 5,
  staleTimeoutMs: 300_000,
  sendTimeoutMs: 10_000,
  shutdownTimeoutMs: 30_000,
  brokerOutageCooldownMs: 30_000,
  publishConcurrency: 10,
  queueSnapshotRefreshMs: 3_600_000,
} as const;

/** A relay with its own clock, a broker that confirms and stores that answer as scripted. */
function setup() {
  const time = new VirtualTime();
  const { clock } = time;
  const outbox = new MemoryOutboxStore({ clock });
  const known = new Map<string, TaskState>();
  const elsewhere = new Map<string, LifeState>();
  const published: { readonly id: string; readonly atMs: number }[] = [];
  const asked: number[] = [];
  let isAway = false;
  const receipts: ReceiptSources = {
    ledger: {
      states: async ids => {
        asked.push(time.nowMs);
        if (isAway)
          throw outlastError('ERR_STORE_UNAVAILABLE', {
            message: 'away',
            hint: 'Wait.',
            fields: { store: 'ledger' },
          });
        return ids.map(id => known.get(id) ?? null);
      },
    },
    results: {
      read: async id => {
        const state = elsewhere.get(id) ?? 'pending';
        return { state, ending: null, result: null, error: null, why: null };
      },
    },
    timeoutMs: 15 * MINUTE,
    dedupMs: 15 * MINUTE,
  };
  const broker = {
    publish: async (messages: readonly { readonly id: string }[]) => {
      for (const { id } of messages) published.push({ id, atMs: time.nowMs });
      return messages.map(() => OK);
    },
  };
  let token = 0;
  const random = { next: () => 0.5, token: () => `token${++token}` };
  const reads = { sample: () => Promise.reject(new Error('no figures')) };
  const emit = (): void => undefined;
  const runtime = { clock, random, faultPoint: noFaults, log: silentLogger, emit };
  const relay = new Relay({ outbox, reads, broker, receipts, runtime, settings: SETTINGS });
  void relay.run(new AbortController().signal);
  const write = (given: object = {}, extras: object = {}): string => {
    const envelope = makeEnvelope({ options: toBytes('{"receipt":true}'), ...given });
    const tx = outbox.begin();
    outbox.write(tx, [envelope], extras);
    tx.commit();
    return envelope.id;
  };
  const away = (value: boolean): void => void (isAway = value);
  const states = (): string[] => [...outbox.rows.values()].map(({ state }) => state);
  const times = (id: string): number[] =>
    published.filter(one => one.id === id).map(({ atMs }) => atMs);
  return { time, outbox, known, elsewhere, asked, write, away, states, times };
}

describe('a published row', () => {
  it('is deleted at once when its task is not end-to-end', async () => {
    const { time, write, states } = setup();
    write({ options: toBytes('{}') });
    await time.runUntil(1_000);
    expect(states()).toEqual([]);
  });

  it.each(['done', 'dead', 'cancelled'] as const)('is deleted when its task is %s', async state => {
    const { time, known, write, states, times } = setup();
    const id = write();
    await time.runUntil(1_000);
    expect(states()).toEqual(['sent']);
    known.set(id, state);
    await time.runUntil(5_000);
    expect(states()).toEqual([]);
    expect(times(id)).toHaveLength(1);
  });

  it.each(['waiting', 'running'] as const)('is kept while its task is %s', async state => {
    const { time, known, write, states, times } = setup();
    const id = write();
    known.set(id, state);
    await time.runUntil(100 * MINUTE);
    expect(states()).toEqual(['sent']);
    expect(times(id)).toHaveLength(1);
  });

  it('is published again when its task has been unknown for the timeout, then after twice that time', async () => {
    const { time, write, times } = setup();
    const id = write();
    await time.runUntil(100 * MINUTE);
    const [first = 0, second = 0, third = 0] = times(id);
    expect(times(id)).toHaveLength(3);
    expect((second - first) / MINUTE).toBeCloseTo(15, 0);
    expect((third - second) / MINUTE).toBeCloseTo(30, 0);
  });

  it('is checked at growing intervals that stay below the dedupWindow of the ledger', async () => {
    const { time, known, asked, write } = setup();
    known.set(write(), 'running');
    await time.runUntil(60 * MINUTE);
    const pauses = asked.slice(1).map((atMs, index) => atMs - (asked[index] ?? 0));
    expect(asked.length).toBeLessThan(40);
    expect(Math.max(...pauses)).toBeLessThan(5 * MINUTE);
  });

  it('is kept without change while the ledger is away', async () => {
    const { time, known, write, away, states, times } = setup();
    const id = write();
    away(true);
    await time.runUntil(60 * MINUTE);
    expect(states()).toEqual(['sent']);
    expect(times(id)).toHaveLength(1);
    known.set(id, 'done');
    away(false);
    await time.runUntil(61 * MINUTE);
    expect(states()).toEqual([]);
  });

  it('is deleted when only a result is known, before it would be published again', async () => {
    const { time, elsewhere, write, states, times } = setup();
    const id = write();
    elsewhere.set(id, 'done');
    await time.runUntil(16 * MINUTE);
    expect(states()).toEqual([]);
    expect(times(id)).toHaveLength(1);
  });
});

describe('an ordering key', () => {
  const one = { orderingKey: 'one' };

  it('publishes its next row when the ledger or a result shows that its first task has ended', async () => {
    const { time, known, elsewhere, write, times } = setup();
    const [first, second, third] = [write({}, one), write({}, one), write({}, one)];
    await time.runUntil(2_000);
    expect([times(first), times(second)]).toEqual([[expect.any(Number)], []]);
    known.set(first, 'done');
    await time.runUntil(10_000);
    expect([times(second).length, times(third).length]).toEqual([1, 0]);
    elsewhere.set(second, 'done');
    await time.runUntil(30_000);
    expect(times(third)).toHaveLength(1);
  });

  it('is parked by a dead task until that is purged, and the purged task is not published again', async () => {
    const { time, known, write, times } = setup();
    const parking = { ...one, parksKey: true };
    const [first, second] = [write({}, parking), write({}, parking)];
    known.set(first, 'dead');
    await time.runUntil(60 * MINUTE);
    expect(times(second)).toEqual([]);
    known.delete(first);
    await time.runUntil(65 * MINUTE);
    expect([times(first).length, times(second).length]).toEqual([1, 1]);
  });

  it('publishes a lost task again that was dead and then revived', async () => {
    const { time, known, write, times } = setup();
    const first = write({}, { ...one, parksKey: true });
    known.set(first, 'dead');
    await time.runUntil(20 * MINUTE);
    known.set(first, 'waiting');
    await time.runUntil(30 * MINUTE);
    known.delete(first);
    await time.runUntil(40 * MINUTE);
    expect(times(first).length).toBeGreaterThan(1);
  });
});
