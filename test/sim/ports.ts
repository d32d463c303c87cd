import type {
  MemoryBroker,
  MemoryBrokerConnection,
} from '../../src/testing/memory/memory-broker.ts';
import type { MemoryEffects } from '../../src/testing/memory/memory-effects.ts';
import type { MemoryLedger } from '../../src/testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import type { MemoryOutboxStore } from '../../src/testing/memory/memory-outbox-store.ts';
import { MemoryResultStore } from '../../src/testing/memory/memory-result-store.ts';
import { MemoryTransaction } from '../../src/testing/memory/memory-transaction.ts';
import type { AdmissionStore } from '../../src/admission/admission-store.ts';
import type { Broker, Delivery, PublishOutcome } from '../../src/broker/broker.ts';
import type { IdempotencyStore } from '../../src/idempotency/idempotency-store.ts';
import type { DeferredEntry, Ledger } from '../../src/ledger/ledger.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { ReceiptSources } from '../../src/relay/receipts.ts';
import type { FaultPoint } from '../../src/runtime/runtime.ts';
import type { ScheduleChange, ScheduleStore } from '../../src/schedule/schedule-store.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import type { KeyDeps } from '../../src/worker/run/claim-key.ts';
import type { EffectDoor } from '../../src/worker/effects/door.ts';
import type { Call } from './remote.ts';

type Subscribe = (subscribe: (hint: () => void) => () => void) => (hint: () => void) => () => void;

/** The ledger as one process sees it: every method is a call over the network. */
export function remoteLedger(
  { ledger, begin, bury }: { readonly ledger: Ledger } & Pick<Ledger, 'begin' | 'bury'>,
  call: Call,
  subscribe: Subscribe,
): Ledger {
  return {
    open: opening => call(() => ledger.open(opening)),
    begin: request => call(() => begin(request)),
    renew: (worker, listsRuns) => call(() => ledger.renew(worker, listsRuns)),
    checkpoint: (run, seq, data) => call(() => ledger.checkpoint(run, seq, data)),
    raiseEpoch: (run, above) => call(() => ledger.raiseEpoch(run, above)),
    commit: items => call(() => ledger.commit(items)),
    fail: items => call(() => ledger.fail(items)),
    release: items => call(() => ledger.release(items)),
    wake: ids => call(() => ledger.wake(ids)),
    park: items => call(() => ledger.park(items)),
    bury: items => call(() => bury(items)),
    condemn: target => call(() => ledger.condemn(target)),
    reap: limit => call(() => ledger.reap(limit)),
    revive: (id, version) => call(() => ledger.revive(id, version)),
    purgeDead: request => call(() => ledger.purgeDead(request)),
    cancel: id => call(() => ledger.cancel(id)),
    prune: limit => call(() => ledger.prune(limit)),
    joinChord: part => call(() => ledger.joinChord(part)),
    abandonChords: limit => call(() => ledger.abandonChords(limit)),
    after: {
      list: (olderThanMs, limit) => call(() => ledger.after.list(olderThanMs, limit)),
      strike: keys => call(() => ledger.after.strike(keys)),
      defer: entries => call(() => ledger.after.defer(entries.map(sooner))),
    },
    refusals: {
      list: (limit, after) => call(() => ledger.refusals.list(limit, after)),
      bury: (id, error) => call(() => ledger.refusals.bury(id, error)),
      handBack: async (id, mark) => {
        // The broker has it already: a worker must get the chance to meet the copy before this.
        for (let round = 0; round < GAP_CALLS; round++) await call(() => undefined);
        return await call(() => ledger.refusals.handBack(id, mark));
      },
    },
    onReady: subscribe(hint => ledger.onReady(hint)),
  };
}

/** Calls that a resurrector loses between giving a task back and forgetting it. */
const GAP_CALLS = 30;

/** A follow-up is given up after half an hour of refusals; no run takes that long. */
const HASTE = 100;
const sooner = (entry: DeferredEntry): DeferredEntry => ({
  ...entry,
  delayMs: entry.delayMs / HASTE,
});

export function remoteKeys(
  { keys, ledger }: { readonly keys: IdempotencyStore; readonly ledger: MemoryLedger },
  call: Call,
): KeyDeps {
  const reads = new MemoryLedgerReads(ledger);
  return {
    store: {
      acquire: request => call(() => keys.acquire(request)),
      complete: request => call(() => keys.complete(request)),
      free: request => call(() => keys.free(request)),
      renew: request => call(() => keys.renew(request)),
      read: key => call(() => keys.read(key)),
      review: (idleMs, limit) => call(() => keys.review(idleMs, limit)),
      prune: limit => call(() => keys.prune(limit)),
    },
    reads: { inspect: id => call(() => reads.inspect(id)) },
  };
}

/** Whom a relay asks what became of a task. */
export function remoteReceipts(
  { ledger, outbox }: { readonly ledger: MemoryLedger; readonly outbox: MemoryOutboxStore },
  call: Call,
): Pick<ReceiptSources, 'ledger' | 'results'> {
  const reads = new MemoryLedgerReads(ledger);
  const results = new MemoryResultStore(ledger, outbox);
  return {
    ledger: { states: ids => call(() => reads.states(ids)) },
    results: { read: id => call(() => results.read(id)) },
  };
}

/** Schedules as one process sees them. `announce` gets each change that arrives, and the time that this process was told last. */
export function remoteSchedules(
  store: ScheduleStore,
  call: Call,
  announce: (change: ScheduleChange, toldMs: number) => void,
): ScheduleStore {
  let toldMs = 0;
  return {
    clock: async () => {
      const told = await call(() => store.clock());
      toldMs = told.nowMs;
      return told;
    },
    due: limit => call(() => store.due(limit)),
    read: name => call(() => store.read(name)),
    list: (after, limit) => call(() => store.list(after, limit)),
    change: change =>
      call(() => {
        announce(change, toldMs);
        return store.change(change);
      }),
    declare: (own, ttlMs, refreshMs) => call(() => store.declare(own, ttlMs, refreshMs)),
    prune: ageMs => call(() => store.prune(ageMs)),
  };
}

/** Admission as one process sees it. */
export function remoteAdmission(store: AdmissionStore, call: Call): AdmissionStore {
  return {
    take: asks => call(() => store.take(asks)),
    refund: reservations => call(() => store.refund(reservations)),
    hold: (token, holdMs) => call(() => store.hold(token, holdMs)),
    confirm: uses => call(() => store.confirm(uses)),
    reserve: ask => call(() => store.reserve(ask)),
    want: wish => call(() => store.want(wish)),
    free: reservations => call(() => store.free(reservations)),
    sweep: (key, limit) => call(() => store.sweep(key, limit)),
    pressure: () => call(() => store.pressure()),
    figures: () => call(() => store.figures()),
    prune: () => call(() => store.prune()),
  };
}

export function remoteOutbox(store: OutboxStore, call: Call, subscribe: Subscribe): OutboxStore {
  const { move, receipts } = store;
  return {
    beat: (relay, leaseMs) => call(() => store.beat(relay, leaseMs)),
    leave: relay => call(() => store.leave(relay)),
    claim: request => call(() => store.claim(request)),
    renewClaim: (token, staleMs) => call(() => store.renewClaim(token, staleMs)),
    settlePublished: (token, rows) => call(() => store.settlePublished(token, rows)),
    settleFailed: (token, failures) => call(() => store.settleFailed(token, failures)),
    defer: (token, rows, delayMs) => call(() => store.defer(token, rows, delayMs)),
    release: token => call(() => store.release(token)),
    withdraw: (id, tell) => call(() => store.withdraw(id, tell)),
    reviveDeadLetter: (id, version) => call(() => store.reviveDeadLetter(id, version)),
    purgeDeadLetters: request => call(() => store.purgeDeadLetters(request)),
    receipts: {
      markSent: (token, rows, delayMs) => call(() => receipts.markSent(token, rows, delayMs)),
      take: (limit, leaseMs) => call(() => receipts.take(limit, leaseMs)),
      received: rows => call(() => receipts.received(rows)),
      later: (rows, delayMs) => call(() => receipts.later(rows, delayMs)),
      park: (rows, delayMs) => call(() => receipts.park(rows, delayMs)),
      sendAgain: (rows, claims) => call(() => receipts.sendAgain(rows, claims)),
    },
    move: move === null ? null : limit => call(() => move(limit)),
    prune: limit => call(() => store.prune(limit)),
    nextDueMs: () => call(() => store.nextDueMs()),
    onReady: subscribe(hint => store.onReady(hint)),
  };
}

/** One process's link to the broker. When a call fails the connection is gone, and with it all it held. */
export class BrokerLink implements Broker {
  readonly #server: MemoryBroker;
  readonly #call: Call;
  #connection: MemoryBrokerConnection;

  constructor(server: MemoryBroker, makeCall: (onTrouble: () => void) => Call) {
    this.#server = server;
    this.#connection = server.connect();
    this.#call = makeCall(() => this.cut());
  }

  /** The connection breaks; the next call uses a new one, on which the old tags mean nothing. */
  cut(): void {
    this.#server.disconnect(this.#connection);
    this.#connection = this.#server.connect();
  }

  async close(): Promise<void> {
    this.#server.disconnect(this.#connection);
  }

  /** There are consumers of another make: what ours cannot run goes back to it. */
  silentMs(): number {
    return 0;
  }

  /** Looked for by polling: the simulator gives no hints for messages. */
  onReady(): () => void {
    return () => undefined;
  }

  publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    return this.#call(() => this.#connection.publish(messages));
  }

  /** What was asked for on one connection is never delivered on the next. */
  take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    const connection = this.#connection;
    return this.#call(() => connection.take(queues, limit));
  }

  ack(deliveries: readonly Delivery[]): Promise<void> {
    const connection = this.#connection;
    return this.#call(() => connection.ack(deliveries));
  }

  giveBack(deliveries: readonly Delivery[]): Promise<void> {
    const connection = this.#connection;
    return this.#call(() => connection.giveBack(deliveries));
  }
}

/** The effect-once door over the network: the user's transaction is opened, used and committed from here. */
export function remoteDoor(
  effects: MemoryEffects,
  call: Call,
  faultPoint: FaultPoint,
): EffectDoor<MemoryTransaction> {
  return {
    locksTask: effects.locksTask,
    fence: () => effects.fence(),
    async pass(run, step, fn) {
      const found = await call(() => effects.enter(run, step));
      await faultPoint('door.fenced');
      if (!found.isNew) return found.value;
      const tx = new MemoryTransaction();
      const value = await fn(tx);
      await faultPoint('door.effect-not-committed');
      await call(() => effects.commit(run, step, { tx, value }));
      return value;
    },
  };
}
