import { describe, expect, it } from 'vitest';
import { MemoryBroker } from '../testing/memory/memory-broker.ts';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import type { Broker } from '../broker/broker.ts';
import { Destinations } from '../ledger/destinations.ts';
import type { AfterEntry } from '../ledger/ledger.ts';
import { noFaults, systemRandom } from '../runtime/runtime.ts';
import { toBytes } from '../task/json.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { Resurrector } from './resurrector.ts';

const MINUTE = 60_000;

/** A resurrector that looks every 100 ms. Its broker refuses messages to `closed` and never answers for `stuck`. */
function setup(destinations?: Destinations) {
  const time = new VirtualTime();
  const { clock } = time;
  const ledger = new MemoryLedger({ clock });
  const memory = new MemoryBroker({ refuse: ({ queue }) => (queue === 'closed' ? 'no' : null) });
  const connection = memory.connect();
  const published: { readonly queue: string; readonly messages: number }[] = [];
  const broker: Broker = Object.assign(Object.create(connection) as typeof connection, {
    silentMs: () => 0,
    publish: (messages: Parameters<Broker['publish']>[0]) => {
      const queue = messages[0]?.queue ?? '';
      published.push({ queue, messages: messages.length });
      return queue === 'stuck' ? new Promise<never>(() => undefined) : connection.publish(messages);
    },
  });
  const nothing = { prune: async () => 0, wake: async () => undefined };
  const resurrector = new Resurrector({
    ledger,
    broker,
    outbox: { ...nothing, purgeDeadLetters: async () => ({ counts: [] }) },
    keys: { store: new MemoryIdempotencyStore(clock), reads: new MemoryLedgerReads(ledger) },
    ...(destinations ? { destinations } : {}),
    runtime: {
      clock,
      random: systemRandom,
      faultPoint: noFaults,
      log: silentLogger,
      emit: noEvents,
    },
    settings: {
      intervalMs: 100,
      unknownTaskTimeoutMs: 900_000,
      afterDelayMs: 0,
      leaseMs: 1_000,
      beatMs: 100,
      chunk: 2,
      deadLetterAge: null,
    },
  });
  const write = (...entries: readonly AfterEntry[]): void => {
    for (const entry of entries) ledger.state.writeAfter(entry);
  };
  const left = (): string[] => [...ledger.state.after.keys()];
  const reasons = (): (string | null)[] =>
    [...ledger.state.records.values()].map(({ state, why }) => (state === 'dead' ? why : state));
  const stop = new AbortController();
  const run = (): Promise<void> => resurrector.run(stop.signal);
  return { time, ledger, broker: memory, published, run, stop, write, left, reasons };
}

const publish = (key: string, queue: string, options = '{}'): AfterEntry => ({
  key,
  publish: makeEnvelope({ queue, options: toBytes(options) }),
});

describe('follow-ups that their worker did not send', () => {
  it('are sent within seconds, also behind eleven thousand that are refused', async () => {
    const { time, run, write, left } = setup();
    write(...Array.from({ length: 11_000 }, (_, index) => publish(`closed-${index}`, 'closed')));
    write(publish('last', 'open'));
    void run();
    await time.runUntil(5_000);
    expect(left()).toHaveLength(11_000);
    expect(left()).not.toContain('last');
  });

  it('are retried with a growing delay while they are refused, then become dead letters with their bytes', async () => {
    const { time, ledger, published, run, write, left, reasons } = setup();
    const refused = publish('a', 'closed');
    write(refused);
    void run();
    await time.runUntil(10 * MINUTE);
    expect(left()).toEqual(['a']);
    expect(published.length).toBeLessThan(12);
    await time.runUntil(40 * MINUTE);
    expect(left()).toEqual([]);
    expect(reasons()).toEqual(['ERR_FOLLOW_UP_UNSENT']);
    const [letter] = ledger.state.records.values();
    expect(letter?.envelope).toEqual('publish' in refused && refused.publish);
    expect(published.length).toBeLessThan(16);
  });

  it('are sent when their dead letter is revived, although their queue was refused', async () => {
    const { time, ledger, broker, run, write, left, reasons } = setup(
      new Destinations({ queues: [], allowed: [] }),
    );
    const [entry, forbidden] = [publish('a', 'open'), publish('b', 'unacked')];
    write(entry, forbidden);
    void run();
    await time.runUntil(1_000);
    expect(reasons()).toEqual(['ERR_DESTINATION_REFUSED']);
    expect(broker.count().queued).toBe(1);
    const id = 'publish' in forbidden ? forbidden.publish.id : '';
    expect(await ledger.revive(id, 1)).toBe('ok');
    expect(left()).toEqual([`${id}/revived:1`]);
    expect(reasons()).toEqual([]);
  });

  it('to a refused destination are buried in batches, and one that no store accepts does not block the others', async () => {
    const { time, ledger, run, write, left, reasons } = setup(
      new Destinations({ queues: [], allowed: [] }),
    );
    const bury = ledger.bury.bind(ledger);
    let calls = 0;
    ledger.bury = async items => {
      calls += 1;
      const names = items.map(item => (item.kind === 'message' ? item.envelope.name : ''));
      if (names.includes('poison')) throw new TypeError('no store takes this');
      return await bury(items);
    };
    const forbidden = Array.from({ length: 1_000 }, (_, index) => publish(`f-${index}`, 'unacked'));
    const poison = {
      key: 'poison',
      publish: makeEnvelope({ name: 'poison', queue: 'unacked' }),
    };
    write(...forbidden, poison, publish('last', 'open'));
    void run();
    await time.runUntil(1_000);
    expect(left()).toEqual(['poison']);
    expect(reasons()).toHaveLength(1_000);
    expect(calls).toBeLessThan(40);
  });

  it('are never given up because of an outage', async () => {
    const { time, ledger, run, write, left, reasons } = setup();
    // One more refusal would bury the second; an outage is no refusal.
    write(publish('a', 'stuck'), { ...publish('b', 'stuck'), attempts: 13 });
    void run();
    await time.runUntil(20 * MINUTE);
    expect(left()).toEqual(['a', 'b']);
    expect(reasons()).toEqual([]);
    const attempts = [...ledger.state.after.values()].map(({ entry }) => entry.attempts);
    expect(attempts).toEqual([undefined, 13]);
  });

  it('are sent also when one of them cannot be read, which becomes a dead letter in the end', async () => {
    const part = { groupId: 'g', index: 0, size: 1, taskId: 't', result: '1' };
    const parent = { id: 't', rootId: 't', queue: 'open', deadlineMs: null };
    const bad: AfterEntry = { key: 'a', part, body: '{"task":"celery.chord"}', parent };
    const { time, run, write, left, reasons } = setup();
    write(bad, publish('b', 'open'));
    void run();
    await time.runUntil(500);
    expect(left()).toEqual(['a']);
    await time.runUntil(40 * MINUTE);
    expect(left()).toEqual([]);
    expect(reasons()).toEqual(['ERR_UNDECODABLE']);
  });
});

describe('a queue that never confirms', () => {
  it('delays neither other follow-ups nor the recovery of tasks', async () => {
    const { time, ledger, run, write, left } = setup();
    const opening = { process: 'p', host: 'h', pid: 1, leaseMs: 1_000 };
    await ledger.open({ worker: 'lost', ...opening });
    const task = makeEnvelope();
    await ledger.begin({
      worker: 'lost',
      run: 'r',
      queues: [],
      limit: 0,
      suspects: 1,
      messages: [task],
      crashBudgets: { '*': 5 },
    });
    write(...Array.from({ length: 50 }, (_, index) => publish(`stuck-${index}`, 'stuck')));
    void run();
    await time.runUntil(1_200);
    expect(ledger.state.records.get(task.id)?.state).toBe('waiting');
    write(publish('good', 'open'));
    await time.runUntil(10_000);
    expect(left()).not.toContain('good');
    expect(left()).toHaveLength(50);
  });

  it('keeps its own refused tasks in the ledger, and others go back to their queues', async () => {
    const { time, ledger, run } = setup();
    const [stuck, open] = ['stuck', 'open'].map(queue => makeEnvelope({ queue }));
    const refused = [stuck, open].flatMap(envelope => envelope ?? []);
    await ledger.park(refused.map(envelope => ({ envelope, delayMs: 0, refusedBy: 'w' })));
    void run();
    await time.runUntil(20_000);
    expect(refused.map(({ id }) => ledger.state.records.has(id))).toEqual([true, false]);
  });
});
