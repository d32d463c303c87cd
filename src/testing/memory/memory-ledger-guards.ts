import { EPOCHS_PER_GENERATION } from '../../ledger/generation-store.ts';
import type { BeginRequest, RunRef } from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { TaskRecord, WorkerRow } from './memory-record.ts';

/**
 * Every deciding comparison, by name. The simulator replaces single ones with known mistakes of other systems and must
 * detect each of them: only then does it mean something that it finds none in the real ones.
 */
export interface LedgerGuards {
  /** May anything begin under this incarnation? Unknown is closed. */
  mayBeginUnder(worker: WorkerRow | undefined): worker is WorkerRow;
  /** May this incarnation renew its lease? */
  mayRenew(worker: WorkerRow | undefined): worker is WorkerRow;
  /** Has the lease ended? Asked with the store's clock only. */
  isLapsed(worker: WorkerRow, nowMs: number): boolean;
  /** May a task that a sender writes beside its outbox become a record, though the ledger knows the id? */
  mayReplace(known: TaskRecord): boolean;
  /** Is it waiting, and due? */
  isReady(record: TaskRecord, nowMs: number): boolean;
  /** Can a worker with this list run it? Undefined: it runs everything. */
  canRun(envelope: Envelope, runnable: BeginRequest['runnable']): boolean;
  /** Is it too soon to begin a message? */
  isEarly(envelope: Envelope, nowMs: number): boolean;
  /** Is it too late to begin it? */
  isExpired(envelope: Envelope, nowMs: number): boolean;
  /** Was it handed out by the same call that is being repeated? */
  isRepeat(record: TaskRecord, worker: string, run: string): boolean;
  /** The lowest epoch that may be given out in this generation. */
  firstEpoch(generation: number): number;
  /** May this run end the task with a result? */
  mayCommit(record: TaskRecord, ref: RunRef): boolean;
  /** May this run give the task back, or bury it? */
  maySettle(record: TaskRecord, ref: RunRef): boolean;
  /** May a run end a task without a record? */
  mayCommitAbsent(): boolean;
  /** Is a commit counted again when it is repeated after a lost reply? */
  countsRepeats(): boolean;
  mayCheckpoint(record: TaskRecord, ref: RunRef, seq: number): boolean;
  /** Does this run own the task, or was its epoch raised by the same call that is being repeated? */
  mayLift(record: TaskRecord, ref: RunRef, above: number): boolean;
  /** Does the task still run under the incarnation that was closed? */
  mayReap(record: TaskRecord, worker: WorkerRow): boolean;
  mayRevive(record: TaskRecord, version: number): boolean;
  /** Has no worker begun the task, or released a copy of it, since it was listed? */
  mayHandBack(record: TaskRecord, mark: string): boolean;
  /** Must the tombstone still reject copies? */
  keepsTombstone(record: TaskRecord, nowMs: number): boolean;
}

function isOwned(record: TaskRecord, ref: RunRef): boolean {
  return record.state === 'running' && record.epoch === ref.epoch && record.run === ref.run;
}

function isOpen(worker: WorkerRow | undefined): worker is WorkerRow {
  return worker !== undefined && !worker.isClosed;
}

export const LEDGER_GUARDS: LedgerGuards = Object.freeze({
  mayBeginUnder: isOpen,
  mayRenew: isOpen,
  isLapsed: (worker, nowMs) => worker.deadlineMs < nowMs,
  mayReplace: () => false,
  isReady: (record, nowMs) => record.state === 'waiting' && record.dueMs <= nowMs,
  canRun: ({ name, version }, runnable) =>
    runnable === undefined || version <= (runnable[name] ?? -1),
  isEarly: (envelope, nowMs) => envelope.etaMs !== null && envelope.etaMs > nowMs,
  isExpired: (envelope, nowMs) => envelope.expiresMs !== null && envelope.expiresMs <= nowMs,
  isRepeat: (record, worker, run) =>
    record.state === 'running' && record.worker === worker && record.run === run,
  firstEpoch: generation => generation * EPOCHS_PER_GENERATION + 1,
  mayCommit: isOwned,
  maySettle: isOwned,
  mayCommitAbsent: () => false,
  countsRepeats: () => false,
  mayCheckpoint: (record, ref, seq) =>
    isOwned(record, ref) && (record.checkpoint?.epoch !== ref.epoch || seq > record.checkpoint.seq),
  mayLift: (record, ref, above) =>
    isOwned(record, ref) || isOwned(record, { ...ref, epoch: above + 1 }),
  mayReap: (record, worker) => record.state === 'running' && record.worker === worker.worker,
  mayHandBack: (record, mark) => record.epoch === 0 && record.refused?.mark === mark,
  mayRevive: (record, version) => record.state === 'dead' && record.version === version,
  keepsTombstone: (record, nowMs) => nowMs < Math.max(record.dedupUntilMs, record.resultUntilMs),
} satisfies LedgerGuards);
