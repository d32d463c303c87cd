import { describe, expect, it } from 'vitest';
import { MemoryBroker } from '../adapters/memory/memory-broker.ts';
import { MemoryIdempotencyStore } from '../adapters/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../adapters/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../adapters/memory/memory-ledger-reads.ts';
import type { AfterEntry, AfterLog } from '../ledger/ledger.ts';
import { systemClock } from '../runtime/clock.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { systemRandom } from '../runtime/random.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { Resurrector } from './resurrector.ts';

/** Looks at two follow-ups at a time, of which those for `closed` are refused. */
function setup(entries: readonly AfterEntry[]) {
  const left = new Map(entries.map(entry => [entry.key, entry]));
  const after: AfterLog = {
    list: async (_, limit) => [...left.values()].slice(0, limit),
    strike: async keys => {
      for (const key of keys) left.delete(key);
    },
  };
  const ledger = Object.assign(new MemoryLedger({ clock: systemClock }), { after });
  const broker = new MemoryBroker({ refuse: ({ queue }) => (queue === 'closed' ? 'no' : null) });
  const nothing = { prune: async () => 0, wake: async () => undefined };
  const resurrector = new Resurrector({
    ledger,
    broker: broker.connect(),
    outbox: { ...nothing, purgeDeadLetters: async () => ({ counts: [] }) },
    keys: { store: new MemoryIdempotencyStore(systemClock), reads: new MemoryLedgerReads(ledger) },
    runtime: {
      clock: systemClock,
      random: systemRandom,
      faultPoint: noFaults,
      log: silentLogger,
      emit: noEvents,
    },
    settings: {
      intervalMs: 1,
      afterDelayMs: 0,
      leaseMs: 1_000,
      beatMs: 100,
      chunk: 2,
      deadLetterAge: null,
    },
  });
  return { resurrector, left };
}

const publish = (key: string, queue: string): AfterEntry => ({
  key,
  publish: makeEnvelope({ queue }),
});

describe('follow-ups that nobody sent', () => {
  it('are sent by and by, also behind many that cannot be', async () => {
    const refused = ['a', 'b', 'c', 'd', 'e'].map(key => publish(key, 'closed'));
    const { resurrector, left } = setup([...refused, publish('f', 'open'), publish('g', 'open')]);
    for (let look = 0; look < 4; look++) await resurrector.look();
    expect([...left.keys()]).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('are sent beside one that no ledger takes', async () => {
    const part = { groupId: 'g', index: 0, size: 1, taskId: 't', result: '1' };
    const parent = { id: 't', rootId: 't', queue: 'open', deadlineMs: null };
    const bad: AfterEntry = { key: 'a', part, body: '{"task":"celery.chord"}', parent };
    const { resurrector, left } = setup([bad, publish('b', 'open')]);
    await resurrector.look();
    expect([...left.keys()]).toEqual(['a']);
  });
});
