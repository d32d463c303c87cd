import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import {
  type BeginReply,
  type BeginRequest,
  type BegunTask,
  type MessageAnswer,
  type TaskRef,
  isSuspect,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';
import { type TaskRecord, copyEnvelope, remember } from './memory-record.ts';

/** A record with known bytes: all but a tombstone that was left before its task arrived. */
type KnownRecord = TaskRecord & { readonly envelope: Envelope };

export const taskRef = (record: KnownRecord): TaskRef => ({
  id: record.id,
  name: record.envelope.name,
  queue: record.envelope.queue,
});

/** Waiting tasks that one call ends because they have expired. */
const MOST_EXPIRED = 500;

/** One call of `begin`: what it has handed out so far. */
class Beginning {
  readonly begun = new Map<string, BegunTask>();
  readonly expired: TaskRef[] = [];
  readonly refused: TaskRef[] = [];
  readonly #state: MemoryLedgerState;
  readonly #request: BeginRequest;
  #suspects: number;

  constructor(state: MemoryLedgerState, request: BeginRequest) {
    this.#state = state;
    this.#request = request;
    this.#suspects = request.suspects;
  }

  /**
   * What this same call got before its reply was lost. As everywhere, a caller that marks its call as the first is
   * trusted.
   */
  takeAgain(): boolean {
    const { worker, run, isFirst } = this.#request;
    if (isFirst === true) return false;
    for (const record of this.#state.records.values()) {
      if (this.#state.guards.isRepeat(record, worker, run)) this.#hand(record as KnownRecord);
    }
    return this.begun.size > 0;
  }

  answer(message: Envelope): MessageAnswer {
    const found = this.#state.records.get(message.id);
    const answer = this.#answer(message);
    const isCopy = found !== undefined && found.envelope?.digest === message.digest;
    if (isCopy && (answer === 'held' || answer === 'done'))
      this.#state.tallies.count(found, 'duplicates');
    return answer;
  }

  #answer(message: Envelope): MessageAnswer {
    const { guards, nowMs } = this.#state;
    const found = this.#state.records.get(message.id);
    // A tombstone without bytes was left for any message with this id.
    if (found?.envelope === null) {
      this.#state.comeCancelled(found, message);
      return 'held';
    }
    if (found !== undefined && found.envelope?.digest !== message.digest) return 'conflict';
    const record = (found ?? this.#state.put(message.id, message)) as KnownRecord;
    if (guards.isRepeat(record, this.#request.worker, this.#request.run)) return this.#hand(record);
    if (record.state === 'done') return 'done';
    if (record.ending === 'expired') return 'expired';
    if (record.state !== 'waiting') return 'held';
    if (guards.isExpired(record.envelope, nowMs)) {
      this.#state.withdraw(record, 'expired');
      return 'expired';
    }
    if (found === undefined && guards.isEarly(message, nowMs)) return this.#keepForLater(record);
    return guards.isReady(record, nowMs) && this.#mayRun(record) ? this.#run(record) : 'held';
  }

  /** A message that came before its eta, by the store's clock. */
  #keepForLater(record: KnownRecord): 'held' {
    const { nowMs } = this.#state;
    this.#state.wait(record, (record.envelope.etaMs ?? nowMs) - nowMs);
    remember(record, 'arrived', nowMs);
    this.#state.note(record, 'park');
    return 'held';
  }

  /** Thousands that expire together take several calls, as with every store. */
  handOutDue(): void {
    const { guards, nowMs } = this.#state;
    let left = this.#request.limit;
    let bytes = 0;
    for (const record of this.#readyInOrder()) {
      if (left === 0 || this.expired.length === MOST_EXPIRED) return;
      if (guards.isExpired(record.envelope, nowMs)) {
        this.expired.push(taskRef(record));
        this.#state.withdraw(record, 'expired');
      } else if (!guards.canRun(record.envelope, this.#request.runnable)) {
        this.#refuse(record);
      } else if (this.#mayRun(record)) {
        bytes += record.envelope.body.length + (record.checkpoint?.data.length ?? 0);
        if (left < this.#request.limit && bytes > BATCH_BYTES) return;
        this.#run(record);
        left -= 1;
      }
    }
  }

  nextDueMs(): number | null {
    let next: number | null = null;
    for (const record of this.#state.records.values()) {
      if (record.state !== 'waiting' || record.envelope === null) continue;
      if (!this.#request.queues.includes(record.envelope.queue)) continue;
      if (record.refused !== null) continue;
      // A suspect that may not run here would always be due "now", and its worker would ask without a pause.
      if (!this.#mayRun(record)) continue;
      const waitMs = Math.max(0, record.dueMs - this.#state.nowMs);
      if (next === null || waitMs < next) next = waitMs;
    }
    return next;
  }

  /** By queue as requested, then priority, then the longest due, then order of arrival. */
  #readyInOrder(): KnownRecord[] {
    const { queues } = this.#request;
    const { guards, nowMs, records } = this.#state;
    const ready: { readonly index: number; readonly record: KnownRecord }[] = [];
    for (const record of records.values()) {
      if (record.envelope === null || !guards.isReady(record, nowMs)) continue;
      const index = queues.indexOf(record.envelope.queue);
      if (index >= 0) ready.push({ index, record: record as KnownRecord });
    }
    ready.sort(
      (a, b) =>
        a.index - b.index ||
        b.record.envelope.priority - a.record.envelope.priority ||
        a.record.dueMs - b.record.dueMs ||
        a.record.order - b.record.order,
    );
    return ready.map(({ record }) => record);
  }

  #mayRun(record: TaskRecord): boolean {
    return !isSuspect(record.crashes, record.crashBudget) || this.#suspects > 0;
  }

  /** Once: after that only workers that can run it look at it. */
  #refuse(record: KnownRecord): void {
    if (record.refused !== null) return;
    this.#state.refuse(record, this.#request.worker);
    this.refused.push(taskRef(record));
  }

  #run(record: KnownRecord): 'begun' {
    const { worker, run, crashBudgets } = this.#request;
    record.state = 'running';
    record.refused = null;
    const { guards, generation } = this.#state;
    record.epoch = Math.max(record.epoch + 1, guards.firstEpoch(generation));
    record.run = run;
    record.worker = worker;
    record.crashBudget = crashBudgets[record.envelope.name] ?? crashBudgets['*'] ?? 0;
    remember(record, 'begun', this.#state.nowMs);
    this.#state.note(record, 'begin');
    return this.#hand(record);
  }

  #hand(record: KnownRecord): 'begun' {
    if (this.begun.has(record.id)) return 'begun';
    const { id, epoch, run, failures, crashes, crashBudget, checkpoint } = record;
    const suspected = isSuspect(crashes, crashBudget);
    if (suspected) this.#suspects -= 1;
    this.begun.set(id, {
      id,
      epoch,
      run,
      envelope: copyEnvelope(record.envelope),
      failures,
      crashes,
      isSuspect: suspected,
      checkpoint: checkpoint?.data.slice() ?? null,
      checkpointSeq: checkpoint?.seq ?? 0,
    });
    return 'begun';
  }
}

export function begin(state: MemoryLedgerState, request: BeginRequest): BeginReply {
  if (!state.guards.mayBeginUnder(state.workers.get(request.worker))) return { status: 'closed' };
  const beginning = new Beginning(state, request);
  // A repeat gets what it got before, and nothing else: its caller relies on the limit it named.
  const isRepeat = beginning.takeAgain();
  const answers = request.messages.map(message => beginning.answer(message));
  if (!isRepeat) beginning.handOutDue();
  return {
    status: 'open',
    begun: [...beginning.begun.values()],
    answers,
    expired: beginning.expired,
    refused: beginning.refused,
    nextDueMs: beginning.nextDueMs(),
  };
}
