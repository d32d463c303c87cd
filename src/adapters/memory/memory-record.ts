import type { HistoryEntry } from '../../admin/read-model.ts';
import type { ErrorRecord, RunRef, TaskState } from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import type { Envelope } from '../../task/envelope.ts';

/** The steps that settle a run. A repeat of the same step on the same run gets the same answer. */
export type SettlingStep = 'commit' | 'fail' | 'release' | 'bury';

/** One task as the ledger knows it. Everything that may change is changed by one synchronous step. */
export interface TaskRecord {
  readonly id: string;
  /** Position of arrival: the last word among tasks that are equally due. */
  readonly order: number;
  readonly createdMs: number;
  /** Null only in a tombstone left before the task arrived: nothing is known of its bytes. */
  envelope: Envelope | null;
  state: TaskState;
  epoch: number;
  run: string;
  worker: string;
  failures: number;
  crashes: number;
  /** Told by the worker at `begin`, because `reap` may be done by somebody who does not know the task. */
  crashBudget: number;
  dueMs: number;
  checkpoint: { readonly epoch: number; readonly seq: number; readonly data: Uint8Array } | null;
  /** Survives the next `begin`: a reply may be lost for longer than that. */
  settled: { readonly epoch: number; readonly run: string; readonly step: SettlingStep } | null;
  /** Counts deaths, so that one revival undoes one death. */
  version: number;
  ending: Ending | null;
  result: Uint8Array | null;
  error: ErrorRecord | null;
  /** The reason of a death, or why a task was discarded. */
  why: string | null;
  endedMs: number;
  /** The tombstone turns away copies until then, and the result can be read until then. */
  dedupUntilMs: number;
  resultUntilMs: number;
  history: HistoryEntry[];
}

/** One incarnation of a worker process. */
export interface WorkerRow {
  readonly worker: string;
  readonly process: string;
  readonly leaseMs: number;
  deadlineMs: number;
  isClosed: boolean;
  /** What it ran when it was closed. `reap` looks at each again, since a commit may have landed in between. */
  ran: string[];
}

const LEDGER_STEPS = [
  'open',
  'renew',
  'condemn',
  'publish',
  'park',
  'begin',
  'checkpoint',
  'lift',
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
] as const;
export type LedgerStep = (typeof LEDGER_STEPS)[number];

/** One transition, told in the order of the store. */
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

/** A task without bound may fail for years; its history must not grow with it. */
const HISTORY_LIMIT = 50;

/** A past fact for people: `begun`, `failed`, `reaped`. */
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

export function isSettledBy(record: TaskRecord, ref: RunRef, step: SettlingStep): boolean {
  const { settled } = record;
  return settled?.epoch === ref.epoch && settled.run === ref.run && settled.step === step;
}
