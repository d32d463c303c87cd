import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { MemoryOutboxStore } from '../testing/memory/memory-outbox-store.ts';
import type { PublishOutcome } from '../broker/broker.ts';
import { isOutlastError, outlastError } from '../errors/error.ts';
import { noFaults } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { makeEnvelopes } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import type { OutboxRow } from '../outbox/outbox-store.ts';
import type { RelayDeps, RelaySettings } from './relay-deps.ts';
import { Relay } from './relay.ts';

const OK: PublishOutcome = { status: 'confirmed' };
const AWAY: PublishOutcome = { status: 'unavailable', error: 'connection refused' };

const SETTINGS: RelaySettings = {
  batchSize: 10,
  idleTimeMs: 1_000,
  backoffTimeMs: 120_000,
  maxBackoffMs: 3_600_000,
  jitter: 'tenth',
  maxRetries: 5,
  staleTimeoutMs: 300_000,
  sendTimeoutMs: 10_000,
  shutdownTimeoutMs: 30_000,
  brokerOutageCooldownMs: 30_000,
  publishConcurrency: 1,
  queueSnapshotRefreshMs: 3_600_000,
};

interface Publishing {
  readonly ids: readonly string[];
  readonly atMs: number;
}

/** Answers for a whole call, after a time. */
type Answer = (
  messages: readonly Envelope[],
  call: number,
) => { readonly outcomes: readonly PublishOutcome[]; readonly afterMs?: number };

const each =
  (answer: (message: Envelope) => PublishOutcome, afterMs = 10): Answer =>
  messages => ({ outcomes: messages.map(answer), afterMs });

/** A relay on a store in memory and a broker that answers as scripted, under a clock that the test moves. */
function setup(answer: Answer, given: Partial<RelaySettings> = {}) {
  const time = new VirtualTime();
  const { clock } = time;
  const outbox = new MemoryOutboxStore({ clock });
  const calls: Publishing[] = [];
  const confirmed: string[] = [];
  const events: string[] = [];
  const figures: object[] = [];
  let inFlight = 0;
  let mostInFlight = 0;
  const broker: RelayDeps['broker'] = {
    publish: messages => {
      calls.push({ ids: messages.map(({ id }) => id), atMs: time.nowMs });
      inFlight += messages.length;
      mostInFlight = Math.max(mostInFlight, inFlight);
      const { outcomes, afterMs } = answer(messages, calls.length);
      return new Promise(resolve =>
        time.after(afterMs ?? 10, () => {
          inFlight -= messages.length;
          for (const [index, { id }] of messages.entries())
            if (outcomes[index]?.status === 'confirmed') confirmed.push(id);
          resolve(outcomes);
        }),
      );
    },
  };
  let token = 0;
  const random = { next: () => 0.5, token: () => `token${++token}` };
  const reads: RelayDeps['reads'] = { sample: () => Promise.reject(new Error('no figures')) };
  const runtime = {
    clock,
    random,
    faultPoint: noFaults,
    log: silentLogger,
    emit: (name: string, event: object) => {
      events.push(name);
      if (name === 'relay:batch' || name === 'task:sent') figures.push(event);
    },
  };
  const settings = { ...SETTINGS, ...given };
  const relay = new Relay({ outbox, reads, broker, runtime, settings });
  const write = (count: number): readonly string[] => {
    const tx = outbox.begin();
    const envelopes = makeEnvelopes(count);
    outbox.write(tx, envelopes);
    tx.commit();
    return envelopes.map(({ id }) => id);
  };
  const stop = new AbortController();
  const run = (): Promise<void> => {
    const running = relay.run(stop.signal);
    running.catch(() => undefined);
    return running;
  };
  return {
    time,
    outbox,
    calls,
    confirmed,
    events,
    figures,
    relay,
    write,
    run,
    stop,
    mostInFlight: () => mostInFlight,
  };
}

const retriesOf = (outbox: MemoryOutboxStore): number[] =>
  [...outbox.rows.values()].map(({ retries }) => retries);

describe('the publish window', () => {
  it('of one publishes strictly in order, one at a time', async () => {
    const { time, outbox, confirmed, write, run, mostInFlight } = setup(each(() => OK));
    const ids = write(25);
    void run();
    await time.runUntil(2_000);
    expect(confirmed).toEqual(ids);
    expect(mostInFlight()).toBe(1);
    expect(outbox.rows.size).toBe(0);
  });

  it('is filled and never exceeded, also when two batches overlap', async () => {
    const options = { publishConcurrency: 20, batchSize: 30 };
    const { time, outbox, write, run, mostInFlight } = setup(
      each(() => OK),
      options,
    );
    write(200);
    void run();
    await time.runUntil(2_000);
    expect(mostInFlight()).toBe(20);
    expect(outbox.rows.size).toBe(0);
  });

  it('lets the relay claim the next rows while earlier ones are being published', async () => {
    // The last call of each batch is slow: without overlap the next batch would begin only after it.
    const slowLast: Answer = (messages, call) => ({
      outcomes: messages.map(() => OK),
      afterMs: call % 10 === 0 ? 1_000 : 10,
    });
    const { time, calls, write, run } = setup(slowLast, { publishConcurrency: 10, batchSize: 10 });
    write(20);
    void run();
    await time.runUntil(3_000);
    expect((calls[10]?.atMs ?? Infinity) < 1_000).toBe(true);
  });

  it('lets rows be settled as confirms arrive, not at the end of the batch', async () => {
    const { time, outbox, write, run } = setup(each(() => OK, 100));
    write(10);
    void run();
    await time.runUntil(550);
    expect(outbox.rows.size).toBeLessThan(7);
    expect(outbox.rows.size).toBeGreaterThan(3);
  });
});

describe('a broker outage', () => {
  it('costs no retry, and all rows are published after it', async () => {
    const until = 100_000;
    const state = { isAway: true };
    const kit = setup(each(() => (state.isAway ? AWAY : OK)));
    const ids = kit.write(12);
    void kit.run();
    await kit.time.runUntil(until);
    expect(kit.confirmed).toEqual([]);
    expect(retriesOf(kit.outbox)).toEqual(ids.map(() => 0));
    state.isAway = false;
    await kit.time.runUntil(until + 120_000);
    expect([...kit.confirmed].sort()).toEqual([...ids].sort());
    expect(kit.outbox.rows.size).toBe(0);
  });

  it('opens the breaker at the second failure in a row, sends one probe, and closes the breaker at the first success', async () => {
    const state = { isAway: true };
    const { time, calls, events, write, run } = setup(each(() => (state.isAway ? AWAY : OK)));
    write(10);
    void run();
    await time.runUntil(1_000);
    expect(calls).toHaveLength(2);
    expect(events.filter(name => name === 'relay:breaker-opened')).toHaveLength(1);
    await time.runUntil(29_000);
    expect(calls).toHaveLength(2);
    await time.runUntil(31_000);
    expect(calls.slice(2).map(({ ids }) => ids.length)).toEqual([1]);
    state.isAway = false;
    await time.runUntil(200_000);
    expect(events.filter(name => name === 'relay:breaker-closed')).toHaveLength(1);
  });

  it('counts once, however many rows were being published', async () => {
    const state = { isAway: true };
    const kit = setup(
      each(() => (state.isAway ? AWAY : OK)),
      { publishConcurrency: 10, batchSize: 20 },
    );
    kit.write(20);
    void kit.run();
    await kit.time.runUntil(5);
    // No call has been answered yet. The connection comes back before the next attempt.
    expect(kit.calls).toHaveLength(10);
    state.isAway = false;
    await kit.time.runUntil(1_000);
    expect(kit.events).not.toContain('relay:breaker-opened');
    expect(kit.confirmed).toHaveLength(10);
  });

  it('stops new publishes until all earlier ones are answered', async () => {
    // The first of ten fails at once, the others take a second.
    const answer: Answer = (messages, call) => ({
      outcomes: messages.map(() => (call === 1 ? AWAY : OK)),
      afterMs: call === 1 ? 10 : 1_000,
    });
    const { time, calls, write, run } = setup(answer, { publishConcurrency: 10, batchSize: 20 });
    write(20);
    void run();
    await time.runUntil(900);
    expect(calls).toHaveLength(10);
    await time.runUntil(5_000);
    expect(calls).toHaveLength(20);
  });

  it('is declared when the broker does not answer within the send timeout', async () => {
    const { time, outbox, events, write, run } = setup(each(() => OK, 1e9));
    write(3);
    void run();
    await time.runUntil(25_000);
    expect(events).toContain('relay:breaker-opened');
    expect(retriesOf(outbox)).toEqual([0, 0, 0]);
  });

  it('makes drain() fail', async () => {
    const { time, relay, write } = setup(each(() => AWAY));
    write(5);
    const draining = relay.drain(new AbortController().signal).catch((error: unknown) => error);
    await time.runUntil(5_000);
    expect(isOutlastError(await draining, 'ERR_BROKER_UNAVAILABLE')).toBe(true);
  });
});

describe('a row that closes the channel', () => {
  it('is found by halving, is the only one to spend a retry, and the others are published', async () => {
    const bad = new Set<string>();
    const answer: Answer = messages => {
      const isClosed = messages.some(({ id }) => bad.has(id));
      const error = 'no exchange';
      const outcome: PublishOutcome = isClosed ? { status: 'suspect', error } : OK;
      return { outcomes: messages.map(() => outcome) };
    };
    const kit = setup(answer, { publishConcurrency: 1_000, batchSize: 100 });
    const ids = kit.write(100);
    bad.add(ids[41] as string);
    void kit.run();
    await kit.time.runUntil(3_000);
    expect(kit.confirmed).toHaveLength(99);
    expect(kit.outbox.rows.size).toBe(1);
    expect(retriesOf(kit.outbox)).toEqual([1]);
    // One call for all, then halves: 2 * log2(100) at most.
    expect(kit.calls.length).toBeLessThanOrEqual(16);
  });
});

describe('a stop', () => {
  it('starts no publish after the shutdown timeout, and releases unpublished rows at once', async () => {
    const { time, outbox, calls, write, run, stop } = setup(
      each(() => OK, 1_000),
      { shutdownTimeoutMs: 2_500 },
    );
    write(10);
    const running = run();
    await time.runUntil(1_500);
    stop.abort();
    await time.runUntil(60_000);
    await running;
    expect(calls.length).toBeLessThanOrEqual(5);
    expect(calls.length).toBeGreaterThanOrEqual(3);
    expect([...outbox.rows.values()].map(({ state }) => state)).not.toContain('claimed');
    expect(outbox.rows.size).toBe(10 - calls.length);
  });

  it('measures its timeout from the signal, not from the answer to a running publish', async () => {
    const { time, calls, write, run, stop } = setup(
      each(() => OK, 9_000),
      { shutdownTimeoutMs: 10_000 },
    );
    write(10);
    const running = run();
    await time.runUntil(100);
    stop.abort();
    await time.runUntil(60_000);
    await running;
    expect(calls.filter(({ atMs }) => atMs > 10_100)).toEqual([]);
    expect(calls).toHaveLength(2);
  });

  it('waits for every running batch, also when the batch before could not be settled', async () => {
    const kit = setup(
      each(() => OK, 1_000),
      { publishConcurrency: 20 },
    );
    const settle = kit.outbox.settlePublished.bind(kit.outbox);
    let first: string | undefined;
    kit.outbox.settlePublished = async (token, rows) => {
      first ??= token;
      if (token === first) throw new Error('permission denied');
      return await settle(token, rows);
    };
    kit.write(20);
    const running = kit.run().catch((error: Error) => `${error.message} ${kit.outbox.rows.size}`);
    await kit.time.runUntil(60_000);
    // All of the second batch was confirmed and settled before the relay ended its lease.
    expect(await running).toBe('permission denied 10');
    expect([...kit.outbox.rows.values()].map(({ state }) => state)).not.toContain('claimed');
  });

  it('interrupts the wait for a broker that is away', async () => {
    const { time, write, run, stop } = setup(each(() => AWAY));
    write(5);
    const running = run();
    await time.runUntil(5_000);
    stop.abort();
    await time.runUntil(5_100);
    await running;
  });
});

describe('settling', () => {
  it('is repeated while the store is away, so that no row is sent twice', async () => {
    const kit = setup(each(() => OK));
    const settle = kit.outbox.settlePublished.bind(kit.outbox);
    let failures = 3;
    kit.outbox.settlePublished = async (...given) => {
      if (failures-- > 0)
        throw outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });
      return await settle(...given);
    };
    const ids = kit.write(5);
    void kit.run();
    await kit.time.runUntil(10_000);
    expect(kit.confirmed).toEqual(ids);
    expect(kit.outbox.rows.size).toBe(0);
  });

  it('ends the relay when the store refuses it, so that no row is sent again and again', async () => {
    const kit = setup(each(() => OK));
    const settle = kit.outbox.settlePublished.bind(kit.outbox);
    let settles = 0;
    kit.outbox.settlePublished = async (...given) => {
      if (settles++ === 0) throw new Error('permission denied');
      return await settle(...given);
    };
    const ids = kit.write(5);
    const running = kit.run().catch((error: Error) => error.message);
    await kit.time.runUntil(60_000);
    kit.stop.abort();
    await kit.time.runUntil(120_000);
    expect(await running).toBe('permission denied');
    expect(kit.confirmed.filter(id => id === ids[0])).toHaveLength(1);
  });

  it('does not cause endless sends when the store refuses to record failures', async () => {
    const kit = setup(each(({ id }) => (id === bad ? { status: 'refused', error: 'no' } : OK)));
    const [bad] = kit.write(5);
    kit.outbox.settleFailed = () => Promise.reject(new Error('permission denied'));
    void kit.run();
    await kit.time.runUntil(60_000);
    expect(kit.calls.filter(({ ids }) => ids.includes(bad as string))).toHaveLength(1);
    expect(kit.confirmed).toHaveLength(4);
  });

  it('makes a row a dead letter after five attempts, with the error of each', async () => {
    const kit = setup(each(() => ({ status: 'refused', error: 'unroutable' })));
    kit.write(1);
    void kit.run();
    await kit.time.runUntil(4 * 3_600_000);
    expect(kit.calls).toHaveLength(5);
    const waits = kit.calls.slice(1).map(({ atMs }, index) => atMs - (kit.calls[index]?.atMs ?? 0));
    for (const [index, wait] of waits.entries()) {
      // 120 s, doubled each time, plus half of a tenth of the base with this random number.
      const documented = 120_000 * 2 ** index + 6_000;
      expect(wait).toBeGreaterThanOrEqual(documented);
      expect(wait).toBeLessThan(documented + 2_000);
    }
    const [letter] = kit.outbox.deadLetters.values();
    const errors = letter?.history.flatMap(({ error }) => (error ? [error.message] : []));
    expect(errors).toEqual(Array(5).fill('unroutable'));
  });
});

describe('rows that cannot be released at once', () => {
  const away = (): Error =>
    outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });

  /** The store refuses this many releases. */
  function failReleases(outbox: MemoryOutboxStore, times: number): void {
    const release = outbox.release.bind(outbox);
    let failures = times;
    outbox.release = async token => {
      if (failures-- > 0) throw away();
      return await release(token);
    };
  }

  it('are released later when the reply to their claim was lost', async () => {
    const kit = setup(each(() => OK));
    const claim = kit.outbox.claim.bind(kit.outbox);
    let claims = 0;
    kit.outbox.claim = async request => {
      const rows = await claim(request);
      if (claims++ === 0) throw away();
      return rows;
    };
    failReleases(kit.outbox, 3);
    const ids = kit.write(5);
    void kit.run();
    await kit.time.runUntil(30_000);
    expect(kit.confirmed).toEqual(ids);
  });

  it('are released later when their claim took effect after the relay had given it up', async () => {
    const kit = setup(each(() => OK));
    const claim = kit.outbox.claim.bind(kit.outbox);
    let claims = 0;
    kit.outbox.claim = async request => {
      if (claims++ > 0) return await claim(request);
      kit.time.after(5_000, () => {
        kit.write(5);
        void claim(request);
      });
      throw away();
    };
    void kit.run();
    await kit.time.runUntil(30_000);
    expect(kit.confirmed).toHaveLength(5);
  });

  it('are released later when the broker went away', async () => {
    let isAway = true;
    const kit = setup(each(() => (isAway ? AWAY : OK)));
    failReleases(kit.outbox, 3);
    kit.write(10);
    void kit.run();
    await kit.time.runUntil(20_000);
    isAway = false;
    await kit.time.runUntil(150_000);
    expect(kit.confirmed).toHaveLength(10);
  });
});

describe('a long batch', () => {
  it('keeps its claim while it publishes, and other relays get none of its rows', async () => {
    const kit = setup(
      each(() => OK, 9_000),
      { batchSize: 100, staleTimeoutMs: 60_000 },
    );
    kit.write(50);
    void kit.run();
    for (let minute = 1; minute < 7; minute++) {
      await kit.time.runUntil(minute * 60_000);
      const stolen = await kit.outbox.claim({
        relay: 'other',
        token: `other${minute}`,
        limit: 100,
        staleMs: 60_000,
      });
      expect(stolen).toEqual([]);
    }
    await kit.time.runUntil(500_000);
    expect(kit.confirmed).toHaveLength(50);
  });
});

describe('the memory of a relay', () => {
  it('does not grow with the backlog, because settled rows are freed', async () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const rows: WeakRef<OutboxRow>[] = [];
    const kept: number[] = [];
    // Virtual time keeps a cancelled timer until it is due: a short one frees its rows soon.
    const { outbox, time, write, relay, stop } = setup(
      each(() => OK),
      { sendTimeoutMs: 15 },
    );
    const claim = outbox.claim.bind(outbox);
    outbox.claim = async request => {
      if (rows.length === 300) {
        collectGarbage();
        kept.push(rows.filter(row => row.deref() !== undefined).length);
      }
      // Copies, because the memory store itself may keep a row.
      const claimed = (await claim(request)).map(row => ({ ...row }));
      rows.push(...claimed.map(row => new WeakRef(row)));
      return claimed;
    };
    write(310);
    const drained = relay.drain(stop.signal);
    await time.runUntil(10_000);
    expect(await drained).toBe(310);
    // At most two batches are being published, and a third is claimed.
    expect(kept[0]).toBeLessThanOrEqual(30);
  });
});

describe('the figures of a relay', () => {
  it('say how a batch ended, and how long a task had been due when it was sent', async () => {
    const answers = [OK, { status: 'refused', error: 'no such queue' }] as const;
    const { time, figures, write, run } = setup((messages, call) => ({
      outcomes: messages.map(() => answers[(call - 1) % 2] ?? OK),
    }));
    write(2);
    await time.runUntil(5_000);
    void run();
    await time.runUntil(6_000);
    const [sent, batch] = figures;
    expect(sent).toMatchObject({ latencyMs: expect.closeTo(5_000, -2) as number });
    expect(batch).toMatchObject({ rows: 2, published: 1, failed: 1, dead: 0, deferred: 0 });
    expect(batch).toMatchObject({ released: 0, again: 0 });
  });

  it('count the rows that an outage leaves for later', async () => {
    const { time, figures, write, run } = setup(
      each(() => ({ status: 'unavailable', error: 'gone' })),
    );
    write(1);
    void run();
    await time.runUntil(1_000);
    expect(figures).toMatchObject([{ rows: 1, published: 0, failed: 0, deferred: 1 }]);
  });
});
