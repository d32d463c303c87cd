import { expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import type { EvacuatedTask } from '../ledger/evacuation.ts';
import { digestOf } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { Keyring } from '../task/keyring.ts';
import { moveTier, type MoveReport } from './move-tier.ts';

interface MovePlan {
  /** What the broker gives at a time. */
  readonly take: (nowMs: number) => readonly Envelope[];
  readonly keyring?: Keyring;
  /** The broker pushes, and is reached from then on. Left out: it is polled. */
  readonly reachedAt?: number;
  /** How long the process stands still with messages that are moved and not acknowledged. */
  readonly stallMs?: number;
  /** Called with every store that is forgotten. */
  readonly forget?: (store: unknown) => void;
}

/** Moves what the broker gives, under a clock that advances with every wait. */
async function move({ take, keyring, reachedAt, stallMs = 0, forget }: MovePlan): Promise<{
  readonly report: MoveReport;
  readonly moved: readonly Envelope[];
  readonly letters: readonly string[];
}> {
  let nowMs = 0;
  const pushing =
    reachedAt === undefined
      ? {}
      : { pushWithin: () => undefined, silentMs: () => (nowMs >= reachedAt ? 0 : null) };
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
        ...pushing,
      },
      ledger,
      reads,
      evacuation: null,
    },
    tiers: {
      moveIn: async tasks => void moved.push(...tasks),
      endMove: async () => undefined,
      forget: async store => forget?.(store),
    },
    queues: ['q'],
    leaving: [{ role: 'broker', store: 'old' }],
    clock,
    faultPoint: async () => void (nowMs += stallMs),
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
  const { report, moved } = await move({
    take: nowMs => (nowMs > 5_500 && taken++ === 0 ? [message] : []),
  });
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
  const { moved, letters } = await move({ take: () => messages.splice(0), keyring });
  expect(moved.map(({ id, body }) => [id, body])).toEqual([[pay.id, pay.body]]);
  expect(letters).toEqual(
    [forged, old]
      .map(({ id }) => expect.stringMatching(`^${id}#[0-9a-f]{32} ERR_DIGEST$`) as string)
      .toSorted(),
  );
});

it('waits for a broker that it does not reach yet', async () => {
  const messages = [makeEnvelope()];
  const take = (nowMs: number): readonly Envelope[] => (nowMs > 10_500 ? messages.splice(0) : []);
  const { report } = await move({ take, reachedAt: 10_000 });
  expect(report).toMatchObject({ status: 'done', messages: 1 });
});

it('fails and forgets nothing when the broker cannot be reached', async () => {
  const forgotten: unknown[] = [];
  const moving = move({
    take: () => [],
    reachedAt: Infinity,
    forget: store => void forgotten.push(store),
  });
  await expect(moving).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
  expect(forgotten).toEqual([]);
});

it('takes the remaining messages after it stood still with some in hand', async () => {
  const messages = [makeEnvelope(), makeEnvelope()];
  const { report } = await move({
    take: () => messages.splice(0, 1),
    reachedAt: 0,
    stallMs: 60_000,
  });
  expect(report).toMatchObject({ status: 'done', messages: 2 });
});
