import type { HistoryEntry } from '../../ledger/dead-letter.ts';
import type { Death } from '../../ledger/death.ts';
import type { ErrorRecord, RunRef, TaskState } from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import type { Envelope } from '../../task/envelope.ts';

/** The steps that settle a run. A repeat of the same step on the same run gets the same answer. */
export type SettlingStep = 'commit' | 'fail' | 'release' | 'bury';

/** One task in the ledger. Every change is one synchronous step. */
export interface TaskRecord {
  readonly id: string;
  /** Order of arrival: decides among tasks that are equally due. */
  readonly order: number;
  readonly createdMs: number;
  /** Null only in a tombstone left before the task arrived: its bytes are unknown. */
  envelope: Envelope | null;
  state: TaskState;
  epoch: number;
  run: string;
  worker: string;
  failures: number;
  crashes: number;
  /** Set by the worker at `begin`, because the process that reaps may not know the task. */
  crashBudget: number;
  dueMs: number;
  /** Set aside because this worker could not run it; null: it was not set aside. */
  refused: { readonly worker: string; readonly atMs: number; readonly mark: string } | null;
  checkpoint: { readonly epoch: number; readonly seq: number; readonly data: Uint8Array } | null;
  /** Survives the next `begin`: a reply may be lost for longer than that. */
  settled: { readonly run: string; readonly step: SettlingStep } | null;
  /** Counts deaths, so that one revival undoes one death. */
  version: number;
  ending: Ending | null;
  result: Uint8Array | null;
  error: ErrorRecord | null;
  /** The reason of a death, or why a task was discarded. */
  why: string | null;
  endedMs: number;
  /** Until then the tombstone rejects copies, and the result can be read. */
  dedupUntilMs: number;
  resultUntilMs: number;
  history: HistoryEntry[];
}

/** One incarnation of a worker process. */
export interface WorkerRow {
  readonly worker: string;
  readonly process: string;
  readonly host: string;
  readonly leaseMs: number;
  deadlineMs: number;
  isClosed: boolean;
  /** How it ended, once it is closed. */
  death: Death | null;
  /** Its runs when it was closed. `reap` checks each again, since a commit may have landed in between. */
  ran: string[];
}

const LEDGER_STEPS = [
  'open',
  'renew',
  'condemn',
  'publish',
  'park',
  'begin',
  'refuse',
  'checkpoint',
  'raise',
  'commit',
  'fail',
  'release',
  'bury',
  'reap',
  'revive',
  'cancel',
  'expire',
  'prune',
  'purge',
  'hand back',
] as const;
export type LedgerStep = (typeof LEDGER_STEPS)[number];

/** One transition, reported in the order of the store. */
export interface JournalEntry {
  readonly step: LedgerStep;
  /** The task; empty for the steps of a worker. */
  readonly id: string;
  readonly epoch: number;
  readonly run: string;
  readonly worker: string;
  readonly atMs: number;
  /** The state after the step; null for the steps of a worker. */
  readonly state: TaskState | null;
  /** When the worker's lease would have ended, in its own steps. */
  readonly deadlineMs: number | null;
  /** Why an incarnation was closed. */
  readonly cause: 'expired' | 'process' | 'worker' | null;
}

export type Journal = (entry: JournalEntry) => void;

/** A task without a limit may fail for years; its history must not grow with it. */
const HISTORY_LIMIT = 50;

/** A past event, for operators: `begun`, `failed`, `reaped`. */
export function remember(
  record: TaskRecord,
  fact: string,
  atMs: number,
  error?: ErrorRecord,
): void {
  record.history.push({
    at: new Date(atMs).toISOString(),
    step: fact,
    epoch: record.epoch,
    ...(record.worker === '' ? {} : { worker: record.worker }),
    ...(error === undefined ? {} : { error }),
  });
  if (record.history.length > HISTORY_LIMIT) record.history.shift();
}

/** A store shares no memory with its callers: bytes are copied on their way in and out. */
export function copyEnvelope(envelope: Envelope): Envelope {
  return { ...envelope, body: envelope.body.slice(), options: envelope.options.slice() };
}

export function newRecord(
  id: string,
  envelope: Envelope | null,
  order: number,
  nowMs: number,
): TaskRecord {
  return {
    id,
    order,
    createdMs: nowMs,
    envelope: envelope === null ? null : copyEnvelope(envelope),
    state: 'waiting',
    epoch: 0,
    run: '',
    worker: '',
    failures: 0,
    crashes: 0,
    crashBudget: 0,
    dueMs: nowMs,
    refused: null,
    checkpoint: null,
    settled: null,
    version: 0,
    ending: null,
    result: null,
    error: null,
    why: null,
    endedMs: 0,
    dedupUntilMs: 0,
    resultUntilMs: 0,
    history: [],
  };
}

/** By this same run, whatever its epoch was then: it may have been raised since. */
export function isSettledBy(record: TaskRecord, ref: RunRef, step: SettlingStep): boolean {
  const { settled } = record;
  return settled?.run === ref.run && settled.step === step;
}
