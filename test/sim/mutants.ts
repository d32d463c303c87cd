import { EFFECT_GUARDS, type EffectGuards } from '../../src/testing/memory/memory-effects.ts';
import { LEDGER_GUARDS, type LedgerGuards } from '../../src/testing/memory/memory-ledger-guards.ts';
import type { OutboxGuards } from '../../src/testing/memory/memory-outbox-guards.ts';
import type { WorkerRow } from '../../src/testing/memory/memory-record.ts';
import type { ScheduleGuards } from '../../src/testing/memory/memory-schedule-store.ts';
import type { ScheduleSpec } from '../../src/config/schedule.ts';
import type { IdempotencyStore } from '../../src/idempotency/idempotency-store.ts';
import { isUnavailable } from '../../src/errors/error.ts';
import {
  revivedKey,
  UNSENT_REASONS,
  type BeginReply,
  type BeginRequest,
  type Ledger,
  type RunRef,
  type StepStatus,
} from '../../src/ledger/ledger.ts';
import type { ReceiptSources } from '../../src/relay/receipts.ts';
import type { Clock } from '../../src/runtime/runtime.ts';
import type { ScheduleStore } from '../../src/schedule/schedule-store.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';

/** One known mistake. The simulator must notice each, or its silence about the real thing means nothing. */
export interface Mutant {
  readonly name: string;
  readonly ledger?: Partial<LedgerGuards>;
  readonly outbox?: Partial<OutboxGuards>;
  readonly effects?: Partial<EffectGuards>;
  /** False: a popped message exists only in the memory of the consumer. */
  readonly holdsUntilAck?: false;
  readonly isPlaceOver?: () => boolean;
  readonly writesOutsideTransaction?: true;
  /** A message is begun first, and its signature verified when it runs. */
  readonly verifiesLate?: true;
  /** Changes what a process asks about idempotency keys. */
  readonly wrapKeys?: (store: IdempotencyStore) => IdempotencyStore;
  /** Changes what a process asks of its ledger. */
  readonly wrapLedger?: (ledger: Ledger) => Ledger;
  /** Changes the answers that a relay gets about tasks that it has published. */
  readonly wrapStates?: (ledger: ReceiptSources['ledger']) => ReceiptSources['ledger'];
  readonly wrapOutbox?: (outbox: OutboxStore, ledger: Ledger) => OutboxStore;
  readonly schedules?: Partial<ScheduleGuards>;
  /** Changes what a scheduler asks of its store. `clock`: of its process. */
  readonly wrapSchedules?: (store: ScheduleStore, clock: Clock) => ScheduleStore;
  /** Changes what is put when an operator puts a schedule. */
  readonly wrapSpec?: (spec: ScheduleSpec) => ScheduleSpec;
  /** Whether a task is over is asked of the outbox alone. */
  readonly overlapsAsksOutboxOnly?: true;
}

/** It cannot show where there is no schedule. */
export const isOfSchedules = (mutant: Mutant): boolean =>
  [mutant.schedules, mutant.wrapSchedules, mutant.wrapSpec, mutant.overlapsAsksOutboxOnly].some(
    change => change !== undefined,
  );

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

/** The confirm of the broker is taken for the end of the task. */
function goesWithTheConfirm(outbox: OutboxStore): OutboxStore {
  const markSent = (token: string, rows: readonly string[]): Promise<number> =>
    outbox.settlePublished(token, rows);
  return { ...outbox, receipts: { ...outbox.receipts, markSent } };
}

/** An unknown task is taken for an ended one. */
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

/** A follow-up that was refused is taken for one that was sent. */
const strikesWhatIsRefused = (ledger: Ledger): Ledger => ({
  ...ledger,
  after: {
    ...ledger.after,
    defer: entries => ledger.after.strike(entries.map(({ key }) => key)),
  },
});

/** A refused follow-up is due again only after the end of the run. */
const defersForEver = (ledger: Ledger): Ledger => ({
  ...ledger,
  after: {
    ...ledger.after,
    defer: entries => ledger.after.defer(entries.map(entry => ({ ...entry, delayMs: 1e15 }))),
  },
});

/** A follow-up that is given up is struck off without a dead letter. */
const givesUpWithoutLetter = (ledger: Ledger): Ledger => ({
  ...ledger,
  bury: items =>
    ledger.bury(items.filter(item => item.kind === 'run' || !UNSENT_REASONS.includes(item.reason))),
});

/** The dead letter of a revived follow-up is deleted, and the follow-up is not sent. */
const revivesIntoNothing = (ledger: Ledger): Ledger => ({
  ...ledger,
  revive: async (id, version) => {
    const status = await ledger.revive(id, version);
    if (status === 'ok') await ledger.after.strike([revivedKey(id, version)]);
    return status;
  },
});

/** A batch is refused for one message in it: half of it is begun again, and the other half is taken for known. */
function forgetsHalfABatch(ledger: Ledger): Ledger {
  const begin = async (request: BeginRequest): Promise<BeginReply> => {
    try {
      return await ledger.begin(request);
    } catch (error) {
      const { messages, tags } = request;
      if (isUnavailable(error) || messages.length < 2) throw error;
      const half = Math.ceil(messages.length / 2);
      const some = {
        messages: messages.slice(0, half),
        ...(tags && { tags: tags.slice(0, half) }),
      };
      const reply = await begin({ ...request, ...some });
      if (reply.status === 'closed') return reply;
      const rest = messages.slice(half).map(() => 'done' as const);
      return { ...reply, answers: [...reply.answers, ...rest] };
    }
  };
  return { ...ledger, begin };
}

/** The slot is advanced in a step of its own, and its task written in the next one. */
const advancesFirst = (store: ScheduleStore): ScheduleStore => ({
  ...store,
  change: async change => {
    const answer = await store.change({ ...change, tasks: [] });
    if (answer === 'stale' || change.tasks.length === 0) return answer;
    return await store.change({ ...change, seen: change.to?.version ?? null });
  },
});

/** What is not there any more is inserted: a statement that inserts or updates. */
const insertsOrUpdates = (store: ScheduleStore): ScheduleStore => ({
  ...store,
  change: async change => {
    const answer = await store.change(change);
    const isGone = answer === 'stale' && (await store.read(change.name)) === null;
    return isGone ? await store.change({ ...change, seen: null }) : answer;
  },
});

/** A scheduler decides by its own clock what is due. */
const trustsItsClock = (store: ScheduleStore, clock: Clock): ScheduleStore => ({
  ...store,
  clock: async () => ({ ...(await store.clock()), nowMs: clock.now() }),
});

const makesUpForOneMore = (spec: ScheduleSpec): ScheduleSpec => ({
  ...spec,
  maxCatchUp: spec.maxCatchUp + 1,
});

export const MUTANTS: readonly Mutant[] = [
  { name: 'commit without epoch check', ledger: { mayCommit: () => true } },
  { name: 'commit checks state only', ledger: { mayCommit: record => record.state === 'running' } },
  { name: 'repeated commit counted again', ledger: { countsRepeats: () => true } },
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
  {
    name: 'set-aside tasks are never ready',
    ledger: {
      isReady: (record, nowMs) => record.refused === null && LEDGER_GUARDS.isReady(record, nowMs),
    },
  },
  { name: 'handed back though a copy has come', ledger: { mayHandBack: () => true } },
  { name: 'closed incarnation begins', ledger: { mayBeginUnder: anyone } },
  { name: 'drain without release', wrapLedger: ledger => ({ ...ledger, release: releaseNothing }) },
  { name: 'key taken from a holder that lives', wrapKeys: takeFromTheLiving },
  { name: 'reservations are a counter', isPlaceOver: () => false },
  { name: 'reservations of living runs are freed', isPlaceOver: () => true },
  { name: 'row goes with the confirm', wrapOutbox: goesWithTheConfirm },
  { name: 'unknown means over', wrapStates: unknownIsOver },
  { name: 'eta by the clock of a worker', ledger: { isEarly: () => false } },
  { name: 'epochs of an older copy go on', ledger: { firstEpoch: () => 1 } },
  { name: 'send replaces what the ledger knows', ledger: { mayReplace: () => true } },
  {
    name: 'sent again after it was cancelled',
    ledger: { mayReplace: known => known.state === 'cancelled' },
  },
  { name: 'send outside the transaction', writesOutsideTransaction: true },
  { name: 'verified after begin', verifiesLate: true },
  { name: 'defer strikes off', wrapLedger: strikesWhatIsRefused },
  { name: 'defer without an end', wrapLedger: defersForEver },
  { name: 'given up without a letter', wrapLedger: givesUpWithoutLetter },
  { name: 'revived into nothing', wrapLedger: revivesIntoNothing },
  { name: 'revived whatever it is', ledger: { mayRevive: () => true } },
  { name: 'half a refused batch forgotten', wrapLedger: forgetsHalfABatch },
  { name: 'slot without version check', schedules: { comparesVersion: false } },
  { name: 'slot and task in two steps', schedules: { isAtomic: false } },
  { name: 'slot goes on before its task', wrapSchedules: advancesFirst },
  { name: 'catch-up of one too many', wrapSpec: makesUpForOneMore },
  { name: 'paused schedule fires', schedules: { heedsPause: false } },
  { name: 'removed schedule comes back', wrapSchedules: insertsOrUpdates },
  { name: 'slots by the clock of a process', wrapSchedules: trustsItsClock },
  { name: 'overlap asks the outbox only', overlapsAsksOutboxOnly: true },
];
