import type { RunRef } from '../../ledger/ledger.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { TaskRecord, WorkerRow } from './memory-record.ts';

/**
 * Every comparison that decides, by name. The simulator replaces single ones with known mistakes of
 * other systems and must notice each: that is what makes its silence about the real ones worth something.
 */
export interface LedgerGuards {
  /** May anything begin under this incarnation? Unknown is closed. */
  mayBeginUnder(worker: WorkerRow | undefined): worker is WorkerRow;
  /** May this incarnation go on living? */
  mayRenew(worker: WorkerRow | undefined): worker is WorkerRow;
  /** Has the lease ended? Asked with the store's clock only. */
  isLapsed(worker: WorkerRow, nowMs: number): boolean;
  /** Is it waiting, and has its time come? */
  isReady(record: TaskRecord, nowMs: number): boolean;
  /** Is it too late to begin it? */
  isExpired(envelope: Envelope, nowMs: number): boolean;
  /** Was it handed out by the very call that is being repeated? */
  isRepeat(record: TaskRecord, worker: string, run: string): boolean;
  /** May this run end the task with a result? */
  mayCommit(record: TaskRecord, ref: RunRef): boolean;
  /** May this run give the task back, or up? */
  maySettle(record: TaskRecord, ref: RunRef): boolean;
  /** May a run end a task of which nothing is known? */
  mayCommitAbsent(): boolean;
  mayCheckpoint(record: TaskRecord, ref: RunRef, seq: number): boolean;
  /** Is it the rightful run, or was it lifted by the very call that is being repeated? */
  mayLift(record: TaskRecord, ref: RunRef, above: number): boolean;
  /** Does the task still run under the incarnation that was closed? */
  mayReap(record: TaskRecord, worker: WorkerRow): boolean;
  mayRevive(record: TaskRecord, version: number): boolean;
  /** Must the tombstone still turn copies away? */
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
  isReady: (record, nowMs) => record.state === 'waiting' && record.dueMs <= nowMs,
  isExpired: (envelope, nowMs) => envelope.expiresMs !== null && envelope.expiresMs <= nowMs,
  isRepeat: (record, worker, run) =>
    record.state === 'running' && record.worker === worker && record.run === run,
  mayCommit: isOwned,
  maySettle: isOwned,
  mayCommitAbsent: () => false,
  mayCheckpoint: (record, ref, seq) =>
    isOwned(record, ref) && (record.checkpoint?.epoch !== ref.epoch || seq > record.checkpoint.seq),
  mayLift: (record, ref, above) =>
    isOwned(record, ref) || isOwned(record, { ...ref, epoch: above + 1 }),
  mayReap: (record, worker) => record.state === 'running' && record.worker === worker.worker,
  mayRevive: (record, version) => record.state === 'dead' && record.version === version,
  keepsTombstone: (record, nowMs) => nowMs < Math.max(record.dedupUntilMs, record.resultUntilMs),
} satisfies LedgerGuards);
