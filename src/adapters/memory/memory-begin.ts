import type {
  BeginReply,
  BeginRequest,
  BegunTask,
  MessageAnswer,
  TaskRef,
} from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { MemoryLedgerState } from './memory-ledger-state.ts';
import { copyEnvelope, remember, type TaskRecord } from './memory-record.ts';
import { isSuspect } from '../../ledger/suspect.ts';

/** A record whose bytes are known: everything but a tombstone that came before its task. */
type KnownRecord = TaskRecord & { readonly envelope: Envelope };

export const taskRef = (record: KnownRecord): TaskRef => ({
  id: record.id,
  name: record.envelope.name,
  queue: record.envelope.queue,
});

/** One call of `begin`: what it has handed out so far. */
class Beginning {
  readonly begun = new Map<string, BegunTask>();
  readonly expired: TaskRef[] = [];
  readonly #state: MemoryLedgerState;
  readonly #request: BeginRequest;
  #suspects: number;

  constructor(state: MemoryLedgerState, request: BeginRequest) {
    this.#state = state;
    this.#request = request;
    this.#suspects = request.suspects;
  }

  /** What this very call was given before its reply was lost. As everywhere, who says that it asks first is believed. */
  takeAgain(): boolean {
    const { worker, run, isFirst } = this.#request;
    if (isFirst === true) return false;
    for (const record of this.#state.records.values()) {
      if (this.#state.guards.isRepeat(record, worker, run)) this.#hand(record as KnownRecord);
    }
    return this.begun.size > 0;
  }

  answer(message: Envelope): MessageAnswer {
    const { guards, nowMs } = this.#state;
    const found = this.#state.records.get(message.id);
    // A tombstone without bytes was left for whatever comes under this id.
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
    return guards.isReady(record, nowMs) && this.#mayRun(record) ? this.#run(record) : 'held';
  }

  handOutDue(): void {
    const { guards, nowMs } = this.#state;
    let left = this.#request.limit;
    for (const record of this.#readyInOrder()) {
      if (left === 0) return;
      if (guards.isExpired(record.envelope, nowMs)) {
        this.expired.push(taskRef(record));
        this.#state.withdraw(record, 'expired');
      } else if (this.#mayRun(record)) {
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
      // A suspect that may not run here would say "now" for ever, and its worker would ask without a pause.
      if (!this.#mayRun(record)) continue;
      const waitMs = Math.max(0, record.dueMs - this.#state.nowMs);
      if (next === null || waitMs < next) next = waitMs;
    }
    return next;
  }

  /** By queue as asked for, then priority, then who has been due for longest, then who came first. */
  #readyInOrder(): KnownRecord[] {
    const { queues } = this.#request;
    const { guards, nowMs, records } = this.#state;
    const ready: { readonly place: number; readonly record: KnownRecord }[] = [];
    for (const record of records.values()) {
      if (record.envelope === null || !guards.isReady(record, nowMs)) continue;
      const place = queues.indexOf(record.envelope.queue);
      if (place >= 0) ready.push({ place, record: record as KnownRecord });
    }
    ready.sort(
      (a, b) =>
        a.place - b.place ||
        b.record.envelope.priority - a.record.envelope.priority ||
        a.record.dueMs - b.record.dueMs ||
        a.record.order - b.record.order,
    );
    return ready.map(({ record }) => record);
  }

  #mayRun(record: TaskRecord): boolean {
    return !isSuspect(record.crashes, record.crashBudget) || this.#suspects > 0;
  }

  #run(record: KnownRecord): 'begun' {
    const { worker, run, crashBudgets } = this.#request;
    record.state = 'running';
    record.epoch += 1;
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
  // A repeat is given what it was given, and nothing else: its caller counts on the limit it named.
  const isRepeat = beginning.takeAgain();
  const answers = request.messages.map(message => beginning.answer(message));
  if (!isRepeat) beginning.handOutDue();
  return {
    status: 'open',
    begun: [...beginning.begun.values()],
    answers,
    expired: beginning.expired,
    nextDueMs: beginning.nextDueMs(),
  };
}
