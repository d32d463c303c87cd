import { expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { MemoryLedgerReads } from '../../test/memory/memory-ledger-reads.ts';
import { MemoryLedger } from '../../test/memory/memory-ledger.ts';
import type { EvacuatedTask } from '../ledger/evacuation.ts';
import { noFaults } from '../runtime/fault-point.ts';
import { digestOf } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { Keyring } from '../task/keyring.ts';
import { moveTier, type MoveReport } from './move-tier.ts';

/** Moves what the broker gives, under a clock that advances with every wait. */
async function move(
  take: (nowMs: number) => readonly Envelope[],
  keyring?: Keyring,
): Promise<{
  readonly report: MoveReport;
  readonly moved: readonly Envelope[];
  readonly letters: readonly string[];
}> {
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
  const moved: EvacuatedTask[] = [];
  const ledger = new MemoryLedger({ clock });
  const reads = new MemoryLedgerReads(ledger);
  const report = await moveTier({
    old: {
      broker: {
        take: async () => take(nowMs).map(message => ({ tag: message.id, message })),
        ack: async () => undefined,
      },
      ledger,
      reads,
      evacuation: null,
    },
    tiers: {
      moveIn: async tasks => void moved.push(...tasks),
      endMove: async () => undefined,
      forget: async () => undefined,
    },
    queues: ['q'],
    leaving: [],
    clock,
    faultPoint: noFaults,
    redact: null,
    ...(keyring ? { keyring } : {}),
  });
  const page = { limit: 100, cursor: null, order: 'newest', taskName: null } as const;
  const { items } = await reads.listDead(page);
  return {
    report,
    moved: moved.map(({ envelope }) => envelope),
    letters: items.map(({ id, reason }) => `${id} ${reason}`).toSorted(),
  };
}

it('waits for messages that a killed move took and did not acknowledge', async () => {
  const message = makeEnvelope();
  let taken = 0;
  // A Redis hides taken messages for five seconds, and a slow poll comes on top of it.
  const { report, moved } = await move(nowMs => (nowMs > 5_500 && taken++ === 0 ? [message] : []));
  expect(report).toMatchObject({ status: 'done', messages: 1 });
  expect(moved.map(({ id }) => id)).toEqual([message.id]);
});

it('buries messages that a worker would refuse', async () => {
  const keyring = new Keyring([{ id: 'k', secret: new Uint8Array(32).fill(7) }]);
  const signed = (envelope: Envelope, issuedMs: number): Envelope => {
    const signature = keyring.sign({ ...envelope, options: {} }, issuedMs);
    return { ...envelope, options: toBytes(JSON.stringify({ signature })) };
  };
  const [pay, old] = [makeEnvelope({ queue: 'q' }), makeEnvelope({ queue: 'q' })];
  const forgedBody = toBytes('[["forged"],{},null]');
  const forged = { ...pay, body: forgedBody, digest: digestOf({ ...pay, body: forgedBody }) };
  const messages = [forged, signed(pay, 0), signed(old, -24 * 3_600_000)];
  const { moved, letters } = await move(() => messages.splice(0), keyring);
  expect(moved.map(({ id, body }) => [id, body])).toEqual([[pay.id, pay.body]]);
  expect(letters).toEqual(
    [forged, old]
      .map(({ id }) => expect.stringMatching(`^${id}#[0-9a-f]{32} ERR_DIGEST$`) as string)
      .toSorted(),
  );
});
