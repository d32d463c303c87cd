import { expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { MemoryLedgerReads } from '../adapters/memory/memory-ledger-reads.ts';
import { MemoryLedger } from '../adapters/memory/memory-ledger.ts';
import type { Delivery } from '../broker/broker.ts';
import type { EvacuatedTask } from '../ledger/evacuation.ts';
import { moveTier, type MoveReport } from './move-tier.ts';

interface OldBrokerPlan {
  /** When its messages come, in milliseconds. */
  readonly comesAt: readonly number[];
  /** It pushes, and is reached from then on. Left out: it is polled. */
  readonly pushesFrom?: number;
  /** How long the process stands still with messages that are moved and not acknowledged. */
  readonly stallsMs?: number;
}

/** A move out of a broker, under a clock that each wait moves. */
function setup({ comesAt, pushesFrom, stallsMs = 0 }: OldBrokerPlan) {
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
  const coming = comesAt.map(at => ({ at, message: makeEnvelope() }));
  const expected = coming.map(({ message }) => message.id);
  const take = async (): Promise<readonly Delivery[]> =>
    coming
      .splice(0, coming.filter(({ at }) => nowMs > at).length)
      .map(({ message }) => ({ tag: 'tag', message }));
  const pushing = {
    pushWithin: () => undefined,
    silentMs: () => (nowMs > (pushesFrom ?? 0) ? 0 : null),
  };
  const moved: EvacuatedTask[] = [];
  const forgotten: unknown[] = [];
  const ledger = new MemoryLedger({ clock });
  const polled = { take, ack: async () => undefined };
  const move = (): Promise<MoveReport> =>
    moveTier({
      old: {
        broker: pushesFrom === undefined ? polled : { ...polled, ...pushing },
        ledger,
        reads: new MemoryLedgerReads(ledger),
        evacuation: null,
      },
      tiers: {
        moveIn: async tasks => void moved.push(...tasks),
        endMove: async () => undefined,
        forget: async store => void forgotten.push(store),
      },
      queues: ['q'],
      leaving: [{ role: 'broker', store: 'old' }],
      clock,
      faultPoint: async () => void (nowMs += stallsMs),
      redact: null,
    });
  return { move, ids: () => moved.map(({ envelope }) => envelope.id), expected, forgotten };
}

it('waits for messages that a move which was killed still has on loan', async () => {
  // A Redis hides taken messages for five seconds, and a slow poll comes on top of it.
  const { move, ids, expected } = setup({ comesAt: [5_500] });
  expect(await move()).toMatchObject({ status: 'done', messages: 1 });
  expect(ids()).toEqual(expected);
});

it('does not take a broker that it does not reach yet for an empty one', async () => {
  const { move, ids, expected } = setup({ comesAt: [10_500], pushesFrom: 10_000 });
  expect(await move()).toMatchObject({ status: 'done', messages: 1 });
  expect(ids()).toEqual(expected);
});

it('forgets nothing of a broker that it cannot reach', async () => {
  const { move, forgotten } = setup({ comesAt: [], pushesFrom: Infinity });
  await expect(move()).rejects.toMatchObject({ code: 'ERR_BROKER_UNAVAILABLE' });
  expect(forgotten).toEqual([]);
});

it('listens again after it stood still with messages in hand', async () => {
  const { move, ids, expected } = setup({ comesAt: [0, 500], pushesFrom: 0, stallsMs: 60_000 });
  expect(await move()).toMatchObject({ status: 'done', messages: 2 });
  expect(ids()).toEqual(expected);
});
