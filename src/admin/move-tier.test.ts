import { expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { MemoryLedgerReads } from '../../test/memory/memory-ledger-reads.ts';
import { MemoryLedger } from '../../test/memory/memory-ledger.ts';
import type { EvacuatedTask } from '../ledger/evacuation.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { moveTier } from './move-tier.ts';

it('waits for messages that a killed move took and did not acknowledge', async () => {
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    timer: (ms: number, fn: () => void) => {
      nowMs += ms;
      queueMicrotask(fn);
      return () => undefined;
    },
  };
  const message = makeEnvelope();
  let taken = 0;
  // Redis hides taken messages for five seconds, and a slow poll adds to that.
  const take = async () => (nowMs > 5_500 && taken++ === 0 ? [{ tag: 'tag', message }] : []);
  const moved: EvacuatedTask[] = [];
  const ledger = new MemoryLedger({ clock });
  const report = await moveTier({
    old: {
      broker: { take, ack: async () => undefined },
      ledger,
      reads: new MemoryLedgerReads(ledger),
      evacuation: null,
    },
    tiers: {
      moveIn: async tasks => void moved.push(...tasks),
      endMove: async () => undefined,
      forget: async () => undefined,
    },
    queues: [message.queue],
    leaving: [],
    clock,
    faultPoint: noFaults,
    redact: null,
  });
  expect(report).toMatchObject({ status: 'done', messages: 1 });
  expect(moved.map(({ envelope }) => envelope.id)).toEqual([message.id]);
});
