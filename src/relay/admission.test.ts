import { describe, expect, it } from 'vitest';
import { MemoryAdmissionStore } from '../testing/memory/memory-admission-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import type { PublishOutcome } from '../broker/broker.ts';
import { outlastError } from '../errors/error.ts';
import { noFaults } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { Events, type EventMap } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { makeEnvelopes } from '../../test/conformance/envelopes.ts';
import { Relay } from './relay.ts';

const SETTINGS = {
  batchSize: 100,
  idleTimeMs: 1_000,
  backoffTimeMs: 1_000,
  maxBackoffMs: 1_000,
  jitter: 'tenth',
  maxRetries: 5,
  staleTimeoutMs: 300_000,
  sendTimeoutMs: 10_000,
  shutdownTimeoutMs: 1_000,
  brokerOutageCooldownMs: 1_000,
  publishConcurrency: 100,
  queueSnapshotRefreshMs: 3_600_000,
} as const;

const OK: PublishOutcome = { status: 'confirmed' };

/** A relay under a clock that stands until it is moved; every row is of one limited task. */
function setup(isOneDatabase: boolean, outcome: () => PublishOutcome = () => OK) {
  let nowMs = 1_000_000;
  const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
  const ledger = new MemoryLedger({ clock });
  const outbox = new MemoryOutboxStore(isOneDatabase ? { clock, ledger } : { clock });
  const store = new MemoryAdmissionStore({ clock, ledger });
  const published: string[] = [];
  const rejected: EventMap['admission:rejected'][] = [];
  const admitted: EventMap['admission:admitted'][] = [];
  const events = new Events(error => {
    throw error;
  });
  events.on('admission:rejected', event => rejected.push(event));
  events.on('admission:admitted', event => admitted.push(event));
  const random = { next: () => 0, token: () => String(Math.random()) };
  const runtime = {
    clock,
    random,
    faultPoint: noFaults,
    log: silentLogger,
    emit: events.emit,
  };
  const relay = new Relay({
    outbox,
    reads: { sample: async () => ({}) as never },
    broker: {
      publish: async messages => {
        const outcomes = messages.map(outcome);
        for (const [at, { id }] of messages.entries())
          if (outcomes[at]?.status === 'confirmed') published.push(id);
        return outcomes;
      },
    },
    admission: new Admission({ store, book: new LimitBook([]), runtime }),
    runtime,
    settings: SETTINGS,
  });
  return {
    relay,
    store,
    outbox,
    published,
    rejected,
    admitted,
    advance: (ms: number) => (nowMs += ms),
    write: (envelopes: readonly Envelope[]) => {
      const tx = outbox.begin();
      outbox.write(tx, envelopes);
      tx.commit();
    },
  };
}

const RATE = { limit: 6, perMs: 6_000, burst: 2 };
const INTERVAL_MS = 1_200;
const limited = (n: number, options: object = {}): Envelope[] =>
  makeEnvelopes(n, {
    name: 'limited',
    options: toBytes(JSON.stringify({ ...options, admission: { rate: RATE }, limited: true })),
  });
const forever = new AbortController().signal;

it('a relay publishes no task while the store is full, and emits an event for each', async () => {
  const { relay, store, outbox, published, rejected, advance, write } = setup(false);
  store.full = { retryAfterMs: 1_000, why: 'it is full' };
  write([...limited(1), ...makeEnvelopes(1)]);
  expect(await relay.drain(forever)).toBe(0);
  expect([...outbox.rows.values()].map(({ retries }) => retries)).toEqual([0, 0]);
  const expected = { key: 'store:memory', where: 'relay' };
  expect(rejected).toMatchObject([expected, expected]);
  store.full = null;
  advance(2_000);
  expect(await relay.drain(forever)).toBe(2);
  expect(published).toHaveLength(2);
});

describe.each([
  ['a separate broker', false],
  ['one database', true],
])('a relay with %s', (_, isOneDatabase) => {
  it('publishes as many rows as the rate allows, and delays the others in order without spending retries', async () => {
    const { relay, outbox, published, rejected, admitted, advance, write } = setup(isOneDatabase);
    write(limited(5));
    write(makeEnvelopes(1));
    expect(await relay.drain(forever)).toBe(3);
    const left = [...outbox.rows.values()];
    expect(left.map(({ retries }) => retries)).toEqual([0, 0, 0]);
    expect(new Set(rejected.map(({ retryAfterMs }) => retryAfterMs)).size).toBe(3);
    expect(rejected[0]).toMatchObject({ key: 'task:limited', where: 'relay' });
    // The sixth row is under no limit.
    expect(admitted).toMatchObject([
      { name: 'limited', keys: ['task:limited'], where: 'relay' },
      { keys: ['task:limited'] },
    ]);
    const before = published.length;
    for (let second = 0; second < 12; second++) {
      advance(500);
      await relay.drain(forever);
    }
    expect(outbox.rows.size).toBe(0);
    expect(published.length - before).toBe(3);
  });

  it('takes the rates of a claim in one call, and lines up what is refused behind earlier claims', async () => {
    const { relay, store, outbox, rejected, write } = setup(isOneDatabase);
    const take = store.take.bind(store);
    let calls = 0;
    store.take = async asks => {
      calls += 1;
      return await take(asks);
    };
    write(limited(32));
    await relay.drain(forever);
    expect(calls).toBe(1);
    write(limited(10));
    await relay.drain(forever);
    const waits = rejected.map(({ retryAfterMs }) => retryAfterMs);
    expect(waits).toEqual(Array.from({ length: 40 }, (__, at) => (at + 1) * INTERVAL_MS));
    const due = [...outbox.rows.values()].map(({ availableMs }) => availableMs);
    expect(new Set(due).size).toBe(40);
  });

  it('lets a row that comes a little too early try again before all that wait behind it', async () => {
    const { relay, store, published, rejected, advance, write } = setup(isOneDatabase);
    const rows = limited(10);
    write(rows);
    await relay.drain(forever);
    advance(INTERVAL_MS);
    // Another relay is faster.
    await store.take([{ key: 'task:limited', rate: RATE, count: 1 }]);
    await relay.drain(forever);
    expect(rejected.at(-1)).toMatchObject({ id: rows[2]?.id, retryAfterMs: INTERVAL_MS });
    advance(INTERVAL_MS);
    await relay.drain(forever);
    expect(published.at(-1)).toBe(rows[2]?.id);
    expect(rejected.at(-1)).toMatchObject({ id: rows[3]?.id, retryAfterMs: INTERVAL_MS });
  });

  it('gives back the rate of rows that the broker refused', async () => {
    let answer: PublishOutcome = { status: 'refused', error: 'no such queue' };
    const { relay, published, advance, write } = setup(isOneDatabase, () => answer);
    write(limited(2));
    await relay.drain(forever);
    answer = OK;
    // A rate that had lost their capacity would admit only one of the two rows by now.
    advance(1_100);
    await relay.drain(forever);
    expect(published).toHaveLength(2);
  });

  it('takes nothing from the rate for rows with a valid permit', async () => {
    const { relay, store, published, advance, write } = setup(isOneDatabase);
    await store.take([{ key: 'task:limited', rate: RATE, count: 2 }]);
    await store.hold('early', 30_000);
    await store.hold('late', 30_000);
    write(limited(1, { permit: 'early' }));
    await relay.drain(forever);
    expect(published).toHaveLength(1);
    advance(30_001);
    // The rate is full again, and the row whose permit has expired takes one from it.
    write(limited(3, { permit: 'late' }));
    await relay.drain(forever);
    expect(published).toHaveLength(3);
  });

  it('publishes no limited rows while the admission store is away', async () => {
    const { relay, store, outbox, published, write } = setup(isOneDatabase);
    const away = outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });
    const take = store.take.bind(store);
    store.take = () => Promise.reject(away);
    write(limited(1));
    await expect(relay.drain(forever)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(published).toEqual([]);
    expect([...outbox.rows.values()].map(({ retries }) => retries)).toEqual([0]);
    store.take = take;
    await relay.drain(forever);
    expect(published).toHaveLength(1);
  });
});
