import {
  revivedKey,
  UNSENT_REASONS,
  type AfterLog,
  type BeginReply,
  type BeginRequest,
  type BuryItem,
  type CancelStatus,
  type ChordAnswer,
  type ChordPart,
  type CommitItem,
  type CondemnReply,
  type CondemnTarget,
  type FailItem,
  type Ledger,
  type RaiseReply,
  type ParkItem,
  type ReapReply,
  type RefusalLog,
  type ReleaseItem,
  type RenewReply,
  type RunRef,
  type StepStatus,
  type WorkerOpening,
} from '../../ledger/ledger.ts';
import type {
  MovedRow,
  PurgeReply,
  PurgeRequest,
  ReviveStatus,
} from '../../outbox/outbox-store.ts';
import type { Clock } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import { DIGEST_CONFLICT } from '../../task/marks.ts';
import { afterLog } from './memory-after.ts';
import { begin } from './memory-begin.ts';
import { abandonChords, joinChord, pruneChords } from './memory-chord.ts';
import { LEDGER_GUARDS, type LedgerGuards } from './memory-ledger-guards.ts';
import { MemoryLedgerState } from './memory-ledger-state.ts';
import { choose, countByName } from './memory-purge.ts';
import { memoryRefusals } from './memory-refusals.ts';
import { condemn, reap } from './memory-reap.ts';
import { remember, type Journal, type TaskRecord } from './memory-record.ts';
import { bury, buryMessage, commit, fail, release } from './memory-settle.ts';

export interface MemoryLedgerOptions {
  /** The store's clock. */
  readonly clock: Pick<Clock, 'now'>;
  /** Replaces single guards; for the simulator's mutants. */
  readonly guards?: Partial<LedgerGuards>;
  /** Called with every transition, in the order of the store. */
  readonly journal?: Journal;
}

/**
 * The ledger in RAM, with the compare-and-set semantics of the real ones: every method does all its work before it first
 * yields, so each is one atomic step. For the simulator, the conformance suite and users' tests.
 */
export class MemoryLedger implements Ledger {
  readonly state: MemoryLedgerState;
  readonly after: AfterLog;
  readonly refusals: RefusalLog;

  constructor(options: MemoryLedgerOptions) {
    this.state = new MemoryLedgerState({
      clock: options.clock,
      guards: { ...LEDGER_GUARDS, ...options.guards },
      journal: options.journal ?? (() => undefined),
    });
    this.after = afterLog(this.state);
    this.refusals = memoryRefusals(this.state);
  }

  async open(opening: WorkerOpening): Promise<void> {
    const { worker, process, host, leaseMs, objectives } = opening;
    // A repeat finds itself there. One closed in the meantime stays closed.
    if (this.state.workers.has(worker)) return;
    this.state.tallies.declare(objectives ?? {});
    const deadlineMs = this.state.nowMs + leaseMs;
    const row = {
      worker,
      process,
      host,
      leaseMs,
      deadlineMs,
      isClosed: false,
      death: null,
      ran: [],
    };
    this.state.workers.set(worker, row);
    this.state.noteWorker(row, 'open', null);
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    return begin(this.state, request);
  }

  async renew(worker: string): Promise<RenewReply> {
    const row = this.state.workers.get(worker);
    if (!this.state.guards.mayRenew(row)) return { status: 'closed' };
    row.deadlineMs = this.state.nowMs + row.leaseMs;
    this.state.noteWorker(row, 'renew', null);
    return { status: 'open', runs: this.runningUnder(worker).map(runRef) };
  }

  async checkpoint(ref: RunRef, seq: number, data: Uint8Array): Promise<StepStatus> {
    const record = this.state.records.get(ref.id);
    if (record === undefined) return 'absent';
    if (this.state.guards.mayCheckpoint(record, ref, seq)) {
      record.checkpoint = { epoch: ref.epoch, seq, data: data.slice() };
      this.state.note(record, 'checkpoint');
      return 'ok';
    }
    return isSameCheckpoint(record, ref, seq) ? 'ok' : 'stale';
  }

  async raiseEpoch(ref: RunRef, above: number): Promise<RaiseReply> {
    const record = this.state.records.get(ref.id);
    if (record === undefined) return { status: 'absent' };
    if (!this.state.guards.mayLift(record, ref, above)) return { status: 'stale' };
    if (record.epoch <= above) {
      record.epoch = above + 1;
      this.state.note(record, 'raise');
    }
    return { status: 'ok', epoch: record.epoch };
  }

  async commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]> {
    return items.map(item => commit(this.state, item));
  }

  async fail(items: readonly FailItem[]): Promise<readonly StepStatus[]> {
    return items.map(item => fail(this.state, item));
  }

  async release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]> {
    return items.map(item => release(this.state, item));
  }

  async wake(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      const record = this.state.records.get(id);
      if (record?.state !== 'waiting') continue;
      const sentMs = Math.max(record.createdMs, record.envelope?.etaMs ?? 0);
      const position = Math.min(sentMs, this.state.nowMs);
      if (record.dueMs > position) this.state.wait(record, position - this.state.nowMs);
    }
  }

  async bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]> {
    return items.map(item => bury(this.state, item));
  }

  async park(items: readonly ParkItem[]): Promise<void> {
    for (const { envelope, delayMs, refusedBy } of items) {
      const known = this.state.records.get(envelope.id);
      if (known !== undefined) {
        this.receive(envelope);
        this.state.copyCame(known, envelope, refusedBy);
        continue;
      }
      const waitMs = delayMs ?? Math.max(0, (envelope.etaMs ?? 0) - this.state.nowMs);
      const record = this.#arrive(envelope, waitMs, 'park');
      if (refusedBy !== undefined) this.state.refuse(record, refusedBy);
    }
  }

  async condemn(target: CondemnTarget): Promise<CondemnReply> {
    return { ...condemn(this.state, target), storeMs: this.state.nowMs };
  }

  async reap(limit: number): Promise<ReapReply> {
    return reap(this.state, limit);
  }

  async revive(id: string, version: number): Promise<ReviveStatus> {
    const record = this.state.records.get(id);
    if (record === undefined) return 'absent';
    if (!this.state.guards.mayRevive(record, version)) return 'conflict';
    if ((record.envelope?.expiresMs ?? Infinity) <= this.state.nowMs) return 'expired';
    if (UNSENT_REASONS.includes(record.why ?? '')) return this.#sendAgain(record);
    Object.assign(record, { failures: 0, crashes: 0, ending: null, error: null, why: null });
    this.state.wait(record, 0);
    remember(record, 'revived', this.state.nowMs);
    this.state.note(record, 'revive');
    return 'ok';
  }

  async purgeDead(request: PurgeRequest): Promise<PurgeReply> {
    const dead = [...this.state.records.values()].filter(record => record.state === 'dead');
    const letters = dead.map(record => ({
      id: record.id,
      name: record.envelope?.name ?? '',
      deadMs: record.endedMs,
      createdMs: record.createdMs,
      record,
    }));
    const chosen = choose(letters, request, this.state.nowMs);
    if (!request.isDryRun) for (const { record } of chosen) this.state.purge(record);
    return countByName(chosen);
  }

  async cancel(id: string): Promise<CancelStatus> {
    const record = this.state.records.get(id) ?? this.state.put(id, null);
    if (record.state === 'cancelled') return 'ok';
    if (record.state === 'done' || record.state === 'dead') return 'terminal';
    this.state.withdraw(record, 'cancelled');
    return 'ok';
  }

  async joinChord(part: ChordPart): Promise<ChordAnswer> {
    return joinChord(this.state, part);
  }

  async abandonChords(limit: number): Promise<readonly string[]> {
    return abandonChords(this.state, limit);
  }

  onReady(hint: () => void): () => void {
    return this.state.onReady(hint);
  }

  /** What a sender writes beside its outbox, at its commit. What the ledger knows stays as it is. */
  send(envelope: Envelope): void {
    const known = this.state.records.get(envelope.id);
    if (known !== undefined && !this.state.guards.mayReplace(known)) {
      if (known.envelope === null) this.state.comeCancelled(known, envelope);
      return;
    }
    this.#arrive(envelope, Math.max(0, (envelope.etaMs ?? 0) - this.state.nowMs), 'publish');
  }

  /** The receiving half of `OutboxStore.move`: synchronous, so that a row is never in both stores or in neither. */
  receive(envelope: Envelope): MovedRow['answer'] {
    const found = this.state.records.get(envelope.id);
    if (found === undefined) {
      this.#arrive(envelope, 0, 'publish');
      return 'moved';
    }
    if (found.envelope === null) this.state.comeCancelled(found, envelope);
    if (found.envelope === null || found.envelope.digest === envelope.digest) return 'copy';
    const beside = { ...envelope, id: `${envelope.id}#${envelope.digest.slice(0, 16)}` };
    buryMessage(this.state, beside, DIGEST_CONFLICT.type, DIGEST_CONFLICT);
    return 'conflict';
  }

  async prune(limit: number): Promise<number> {
    const { guards, nowMs, records } = this.state;
    pruneChords(this.state);
    this.state.tallies.fold();
    let pruned = 0;
    for (const record of records.values()) {
      if (pruned === limit) break;
      if (record.state !== 'done' && record.state !== 'cancelled') continue;
      if (guards.keepsTombstone(record, nowMs)) continue;
      this.state.forget(record);
      pruned += 1;
    }
    return pruned;
  }

  runningUnder(worker: string): TaskRecord[] {
    return [...this.state.records.values()].filter(
      record => record.state === 'running' && record.worker === worker,
    );
  }

  #sendAgain(record: TaskRecord): ReviveStatus {
    const { id, version, envelope } = record;
    this.state.records.delete(id);
    this.state.note(record, 'revive');
    const key = revivedKey(id, version);
    // Long overdue: a revival requested by an operator does not wait for the age limit.
    const dueMs = this.state.nowMs - 3_600_000;
    if (envelope !== null) this.state.writeAfter({ key, publish: envelope }, dueMs);
    return 'ok';
  }

  #arrive(envelope: Envelope, delayMs: number, step: 'publish' | 'park'): TaskRecord {
    const record = this.state.put(envelope.id, envelope);
    this.state.wait(record, delayMs);
    remember(record, step === 'park' ? 'arrived' : 'relayed', this.state.nowMs);
    this.state.note(record, step);
    return record;
  }
}

const runRef = ({ id, epoch, run }: TaskRecord): RunRef => ({ id, epoch, run });

/** A checkpoint repeated after a lost reply finds itself there. */
function isSameCheckpoint(record: TaskRecord, ref: RunRef, seq: number): boolean {
  const isOwner =
    record.state === 'running' && record.epoch === ref.epoch && record.run === ref.run;
  return isOwner && record.checkpoint?.epoch === ref.epoch && record.checkpoint.seq === seq;
}
