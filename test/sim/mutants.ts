import { EFFECT_GUARDS, type EffectGuards } from '../../src/adapters/memory/memory-effects.ts';
import {
  LEDGER_GUARDS,
  type LedgerGuards,
} from '../../src/adapters/memory/memory-ledger-guards.ts';
import type { OutboxGuards } from '../../src/adapters/memory/memory-outbox-guards.ts';
import type { WorkerRow } from '../../src/adapters/memory/memory-record.ts';
import type { IdempotencyStore } from '../../src/idempotency/idempotency-store.ts';
import type { Ledger, RunRef, StepStatus } from '../../src/ledger/ledger.ts';
import type { ReceiptSources } from '../../src/relay/receipts.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';

/** One known mistake. The simulator must notice each, or its silence about the real thing means nothing. */
export interface Mutant {
  readonly name: string;
  readonly ledger?: Partial<LedgerGuards>;
  readonly outbox?: Partial<OutboxGuards>;
  readonly effects?: Partial<EffectGuards>;
  /** False: what is popped is in nobody's hands but the consumer's memory. */
  readonly holdsUntilAck?: false;
  readonly isPlaceOver?: () => boolean;
  readonly writesOutsideTransaction?: true;
  /** Changes what a process asks about idempotency keys. */
  readonly wrapKeys?: (store: IdempotencyStore) => IdempotencyStore;
  /** Changes what a process asks of its ledger. */
  readonly wrapLedger?: (ledger: Ledger) => Ledger;
  /** Changes what a relay hears about tasks that it has published. */
  readonly wrapStates?: (ledger: ReceiptSources['ledger']) => ReceiptSources['ledger'];
  readonly wrapOutbox?: (outbox: OutboxStore, ledger: Ledger) => OutboxStore;
}

const anyone = (worker: WorkerRow | undefined): worker is WorkerRow => worker !== null;

/** One statement becomes two: between them the rows are nowhere. */
function moveInTwoSteps(outbox: OutboxStore, ledger: Ledger): OutboxStore {
  if (outbox.move === null) return outbox;
  let calls = 0;
  const move = async (limit: number): ReturnType<NonNullable<OutboxStore['move']>> => {
    const token = `two-steps.${++calls}`;
    const rows = await outbox.claim({ relay: 'mover', token, limit, staleMs: 60_000 });
    await outbox.settlePublished(
      token,
      rows.map(({ row }) => row),
    );
    await ledger.park(rows.map(({ envelope }) => ({ envelope, delayMs: 0 })));
    return {
      rows: rows.map(({ envelope: { id, name, queue } }) => ({ id, name, queue, answer: 'moved' })),
    };
  };
  return { ...outbox, move };
}

/** Rows are deleted when they are claimed: the relay's memory is all that has them. */
function settleBeforePublish(outbox: OutboxStore): OutboxStore {
  return {
    ...outbox,
    claim: async request => {
      const rows = await outbox.claim(request);
      await outbox.settlePublished(
        request.token,
        rows.map(({ row }) => row),
      );
      return rows;
    },
  };
}

/** The broker's word is taken for the end of the task. */
function goesWithTheConfirm(outbox: OutboxStore): OutboxStore {
  const markSent = (token: string, rows: readonly string[]): Promise<number> =>
    outbox.settlePublished(token, rows);
  return { ...outbox, receipts: { ...outbox.receipts, markSent } };
}

/** A task that nobody knows is taken for one that is over. */
const unknownIsOver: NonNullable<Mutant['wrapStates']> = ledger => ({
  states: async ids => (await ledger.states(ids)).map(state => state ?? 'done'),
});

const releaseNothing = async (items: readonly RunRef[]): Promise<StepStatus[]> =>
  items.map(() => 'ok');

/** A holder is taken for ended without a look at the ledger. */
function takeFromTheLiving(store: IdempotencyStore): IdempotencyStore {
  return {
    ...store,
    acquire: async request => {
      const reply = await store.acquire(request);
      if (reply.status !== 'held') return reply;
      return await store.acquire({ ...request, insteadOf: reply.holder });
    },
  };
}

export const MUTANTS: readonly Mutant[] = [
  { name: 'commit without epoch check', ledger: { mayCommit: () => true } },
  { name: 'commit checks state only', ledger: { mayCommit: record => record.state === 'running' } },
  { name: 'check and effect in two steps', effects: { mayApply: () => true } },
  {
    name: 'fence absent means go ahead',
    effects: {
      mayEnter: (record, run) => record === undefined || EFFECT_GUARDS.mayEnter(record, run),
      mayApply: (record, run, isDone) =>
        (record === undefined && !isDone) || EFFECT_GUARDS.mayApply(record, run, isDone),
    },
  },
  { name: 'pop, then register', holdsUntilAck: false },
  { name: 'delete without claim token', outbox: { isOwned: record => record.state === 'claimed' } },
  { name: 'settle before publish', wrapOutbox: settleBeforePublish },
  { name: 'move in two steps', wrapOutbox: moveInTwoSteps },
  {
    name: 'absence means success',
    ledger: {
      mayCommitAbsent: () => true,
      // The record the guard above has just made: waiting, and nothing known of its bytes.
      mayCommit: (record, ref) =>
        LEDGER_GUARDS.mayCommit(record, ref) ||
        (record.state === 'waiting' && record.envelope === null),
    },
  },
  { name: 'reap without re-check', ledger: { mayReap: () => true } },
  {
    name: 'death by another clock',
    ledger: { isLapsed: (worker, nowMs) => worker.deadlineMs - worker.leaseMs / 2 < nowMs },
  },
  { name: 'tombstone dropped early', ledger: { keepsTombstone: () => false } },
  { name: 'closed incarnation begins', ledger: { mayBeginUnder: anyone } },
  { name: 'drain without release', wrapLedger: ledger => ({ ...ledger, release: releaseNothing }) },
  { name: 'key taken from a holder that lives', wrapKeys: takeFromTheLiving },
  { name: 'places are a counter', isPlaceOver: () => false },
  { name: 'places of living runs are freed', isPlaceOver: () => true },
  { name: 'row goes with the confirm', wrapOutbox: goesWithTheConfirm },
  { name: 'unknown means over', wrapStates: unknownIsOver },
  { name: 'send outside the transaction', writesOutsideTransaction: true },
];
