import type { PurgeReply, PurgeRequest, ReviveStatus } from '../outbox/outbox-store.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Slo } from '../task/slo.ts';
import type { ReportedEnd } from '../wire/reply.ts';
import type { ChordAnswer, ChordPart } from './chord-part.ts';
import type { Death } from './death.ts';
import type { AfterLog, ErrorRecord, FollowUp } from './follow-up-log.ts';

export type { CeleryChords, ChordAnswer, ChordPart } from './chord-part.ts';
export { UNSENT_REASONS, endedKey, revivedKey } from './follow-up-log.ts';
export type {
  AfterEntry,
  AfterLog,
  ChordPartEntry,
  DeferredEntry,
  EndedEntry,
  EndedTask,
  ErrorRecord,
  FollowUp,
  Parent,
  PublishEntry,
  ReplyEntry,
} from './follow-up-log.ts';

/**
 * Who runs what, under which epoch. Every method is one atomic step of the store, takes a batch where
 * batches make sense, is given durations and never times (only the store's clock counts), and may be
 * repeated after a lost reply: it names its `run`, so the repeat gets the same answer.
 *
 *   (absent) ──begin──► running ──commit──► done
 *      │                 │  ▲ │
 *      │    fail,release,│  │ ├─fail, bury, reap: budget spent─► dead ──revive──► waiting
 *      │            reap ▼  │begin
 *      └──park, publish─► waiting           cancel: any of these but done, dead ─► cancelled
 *
 * Only `begin` and `raiseEpoch` change the epoch; only `condemn` declares a process dead. A missing record never counts as
 * success: the answer is `absent` and nothing is written.
 */
export interface Ledger extends WorkerLedger, RecoveryLedger, WorkflowLedger, OperatorLedger {}

/** What a worker needs: to take tasks, to run them, and to report how they ended. */
export interface WorkerLedger {
  /**
   * It is on the broker's own server: `begin` acknowledges the messages whose tags it gets in the same step, so no
   * separate acknowledgement is needed. Missing: it does not.
   */
  readonly acknowledges?: boolean;
  /** Opens a new incarnation of a worker process, with its lease. */
  open(worker: WorkerOpening): Promise<void>;
  /** Hands out tasks: of the messages given, and up to `limit` that are waiting and due. */
  begin(request: BeginRequest): Promise<BeginReply>;
  /**
   * Extends the one deadline of a whole process, and returns what the store believes it runs. A store for which this list may
   * be slow leaves it out if `listsRuns` is false.
   */
  renew(worker: string, listsRuns?: boolean): Promise<RenewReply>;
  /** Stores progress; `seq` must grow within a run, so progress never moves backwards. */
  checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus>;
  /**
   * Raises the epoch of a run above one that a fence elsewhere has seen: the ledger has forgotten which run had it. If the
   * run's own epoch is higher already, nothing changes; the reply shows whether the run still owns its task.
   */
  raiseEpoch(run: RunRef, above: number): Promise<RaiseReply>;
  commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]>;
  /** A failed attempt, or a crash that hurt no other task: waits `delayMs`, or is dead when that is null. */
  fail(items: readonly FailItem[]): Promise<readonly StepStatus[]>;
  /**
   * Gives back tasks that could not be finished; nothing is counted. They keep their due time, and so come before later
   * tasks, or wait `delayMs` if there is something to wait for.
   */
  release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]>;
  /**
   * What these tasks waited for is there: the waiting ones become due, before all tasks that were sent later. Also those whose
   * own delay is over. Others stay as they are. Polling works without it.
   */
  wake(ids: readonly string[]): Promise<void>;
  /** Ends runs, and messages that can never run, as dead letters. */
  bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]>;
  /**
   * Takes custody of messages that are not due yet. An existing record is left alone; the same id with other bytes is
   * buried under id and digest, so that it neither runs nor vanishes. Without items nothing is taken; a store that can
   * detect that it is full rejects such a call as well, so that the caller knows before it sends anything.
   */
  park(items: readonly ParkItem[]): Promise<void>;
  /**
   * Takes custody again of tasks that the ledger handed out before it lost its memory: waiting, due now. Tasks that are
   * known, or were handed out since, are left alone. A ledger that does not lose its memory has no such step.
   */
  rescue?(runs: readonly LostRun[]): Promise<void>;
  /** Calls `hint` when tasks may have become ready. Only a hint: polling works without it. Returns the undo. */
  onReady(hint: () => void): () => void;
}

/** What brings tasks back, and deletes what is over. */
export interface RecoveryLedger {
  /** Closes dead incarnations: no task begins under them afterwards. A commit that lands before `reap` counts. */
  condemn(target: CondemnTarget): Promise<CondemnReply>;
  /** Brings back up to `limit` tasks that closed incarnations were running. */
  reap(limit: number): Promise<ReapReply>;
  /** Deletes up to `limit` expired tombstones; they stay in the sums. Returns how many. */
  prune(limit: number): Promise<number>;
  readonly refusals: RefusalLog;
}

/** What follows a task: links, chains, chords and answers to senders. */
export interface WorkflowLedger {
  /** Celery's workers count the parts of chords here too, by the group id that their sender chose. Missing: only ours do. */
  readonly countsWithCelery?: boolean;
  /** It also counts chords of Python, whose parts do not say how many there are. Missing: only where Celery counts too. */
  readonly countsUnsized?: boolean;
  readonly after: AfterLog;
  /**
   * Counts a part of a chord: once, however often it is reported, and a result replaces a failure but never the other way
   * round. If several callers add the last parts at the same time, at least one gets `complete`; several may, and send the
   * same body under the same id.
   */
  joinChord(part: ChordPart): Promise<ChordAnswer>;
  /**
   * The broker has the body of a chord: a caller that reports a part of it again gets `open`, and sends no copy. Missing: it
   * sends one, and the ledger drops the copy when the body reaches a worker of ours.
   */
  closeChord?(groupId: string): Promise<void>;
  /**
   * Stores how tasks ended that are never sent, because `of` ended without a result, for the callers that wait for them. A
   * task that was sent after all is left alone. Missing: no caller could read it here.
   */
  recordNeverSent?(ids: readonly string[], told: ReportedEnd, of: string): Promise<void>;
  /** Deletes up to `limit` chords that are incomplete and have had no part for a week. Returns their group ids. */
  abandonChords(limit: number): Promise<readonly string[]>;
}

/** What people decide about a task. */
export interface OperatorLedger {
  /**
   * A dead task waits again, once: the version names the death that is undone. An unsent follow-up (`UNSENT_REASONS`) is
   * sent again instead, and its record is deleted: its queue may belong to other consumers.
   */
  revive(id: string, version: number): Promise<ReviveStatus>;
  /**
   * Ends up to `limit` dead tasks that match, oldest death first: their bytes, errors and steps are gone at once. A tombstone
   * stays for a day, so that a late copy from a broker does not run. A dry run counts all and changes nothing.
   */
  purgeDead(request: PurgeRequest): Promise<PurgeReply>;
  /** Leaves a tombstone, whether or not the task has arrived: it never comes back. */
  cancel(id: string): Promise<CancelStatus>;
}

export interface WorkerOpening {
  /** The incarnation: drawn anew each time, never used again. */
  readonly worker: string;
  /** The operating-system process, named by its supervisor before it starts. */
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly leaseMs: number;
  /** What the tasks of its handlers promise, by name; null: nothing. The last worker to open decides. */
  readonly objectives?: Readonly<Record<string, Slo | null>>;
}

/** One run of one task. Every later step compares all three. */
export interface RunRef {
  readonly id: string;
  readonly epoch: number;
  readonly run: string;
}

export interface ReleaseItem extends RunRef {
  readonly delayMs?: number;
}

export interface BeginRequest {
  readonly worker: string;
  /** Random per call; a repeat after a lost reply names the same one and gets the same tasks. */
  readonly run: string;
  /** No call has used this run before: there is nothing to look up. A hint. */
  readonly isFirst?: boolean;
  /** In order of preference. */
  readonly queues: readonly string[];
  /** How many waiting tasks to hand out beside the messages. */
  readonly limit: number;
  /** How many suspects may be handed out, messages included: no two suspects run at the same time (`isSuspect`). */
  readonly suspects: number;
  readonly messages: readonly Envelope[];
  /** The broker's tags of the messages, for a ledger that acknowledges. */
  readonly tags?: readonly string[];
  /**
   * Where the tasks run, for the waiters of their results: Celery's STARTED, in a ledger whose results Celery reads. Left
   * out: no STARTED is stored.
   */
  readonly runsAt?: RunsAt;
  /** How often a task may lose its worker, by task name; `*` for the others. */
  readonly crashBudgets: Readonly<Record<string, number>>;
  /**
   * What the worker can run: task names, each with the highest payload version its handler reads. A waiting task that is
   * not among them is set aside for a worker that can run it. Left out: everything, except what was set aside.
   */
  readonly runnable?: Readonly<Record<string, number>>;
}

/** A worker as Celery calls it. */
export interface RunsAt {
  readonly pid: number;
  readonly hostname: string;
}

export type BeginReply = BeginOpen | { readonly status: 'closed' };

export interface BeginOpen {
  readonly status: 'open';
  readonly begun: readonly BegunTask[];
  /** One for each message, in their order. */
  readonly answers: readonly MessageAnswer[];
  /** Waiting tasks whose `expires` had passed: ended as cancelled, never run. For messages, see `answers`. */
  readonly expired: readonly TaskRef[];
  /** Waiting tasks that were set aside now, because they are not among `runnable`. */
  readonly refused: readonly TaskRef[];
  /** Unreadable records: dead letters now. Left out: none. */
  readonly unreadable?: readonly TaskRef[];
  /** Milliseconds until a waiting task of these queues becomes due; null when there is none. A hint. */
  readonly nextDueMs: number | null;
}

/**
 * `begun` runs now. `held`: the ledger has it (waiting, running, dead, cancelled). `done`: finished
 * before. `expired`: its time is over. `conflict`: same id, other bytes; the new message must be buried.
 */
export type MessageAnswer = 'begun' | 'held' | 'done' | 'expired' | 'conflict';

export interface BegunTask extends RunRef {
  readonly envelope: Envelope;
  /** Failed runs so far. */
  readonly failures: number;
  /** Lost workers so far. */
  readonly crashes: number;
  /** It was a suspect when it was begun. */
  readonly isSuspect: boolean;
  readonly checkpoint: Uint8Array | null;
  readonly checkpointSeq: number;
  /** How long a run may take where the task itself says nothing: the worker's own limit. Left out: as long as it takes. */
  readonly timeoutMs?: number;
}

export interface TaskRef {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
}

export type RenewReply =
  | { readonly status: 'closed' }
  /** Null: what it runs was not asked. */
  | { readonly status: 'open'; readonly runs: readonly RunRef[] | null };

/**
 * `ok`: done now, or the same step of the same run did it before, under whatever epoch. `stale`: another run owns the
 * task, or it ended otherwise. `absent`: there is no record, so nothing is known and nothing was written.
 */
export type StepStatus = 'ok' | 'stale' | 'absent';

/** `ok`: the run owns its task, and from now on under this epoch. */
export type RaiseReply =
  | { readonly status: 'ok'; readonly epoch: number }
  | { readonly status: 'stale' | 'absent' };

export interface CommitItem {
  readonly ref: RunRef;
  readonly outcome: Outcome;
  readonly after: readonly FollowUp[];
  /** How long the tombstone must turn away copies. */
  readonly dedupMs: number;
  /** How long the result is kept. */
  readonly resultMs: number;
  /** For Celery's `AsyncResult.children`, as JSON text. Left out: it has none. */
  readonly children?: string;
}

export type Outcome =
  | { readonly kind: 'done'; readonly result: Uint8Array | null }
  | { readonly kind: 'discarded'; readonly why: string };

export interface FailItem {
  readonly ref: RunRef;
  readonly error: ErrorRecord;
  /** Null: no attempt is left, the task is dead. */
  readonly delayMs: number | null;
  /** The code reported as the reason of a death. */
  readonly reason: string;
  /** The run took its own thread or process with it: counted as a crash and not as a failed attempt, due as before. */
  readonly isCrash?: boolean;
}

export interface ParkItem {
  readonly envelope: Envelope;
  readonly delayMs: number | null; // null: due at its eta, by the store's clock
  /** The worker that has no handler for it: the task is set aside at once for a worker that has one. */
  readonly refusedBy?: string;
}

/** Tasks set aside because a worker could not run them; `begin` hands them to a worker that names them as runnable. */
export interface RefusalLog {
  /**
   * The due ones, first set aside first; a page of up to `limit`. `after` is the `next` of the page before: a page may be
   * empty and still have a next one.
   */
  list(limit: number, after?: string): Promise<RefusedPage>;
  /** Ends one as a dead letter. `stale`: a worker has begun it, or it has ended; nothing was written. */
  bury(id: string, error: ErrorRecord): Promise<StepStatus>;
  /** Deletes one: the broker has it again. Only if it is still set aside, and no copy of it has come since it was listed. */
  handBack(id: string, mark: string): Promise<StepStatus>;
}

export interface RefusedPage {
  readonly tasks: readonly RefusedTask[];
  /** Null: it was the last one. */
  readonly next: string | null;
}

export interface RefusedTask {
  readonly envelope: Envelope;
  /** Since it was set aside, by the store's clock. */
  readonly waitedMs: number;
  /** The worker that set it aside. */
  readonly worker: string;
  /** It was begun before: the ledger has more of it than its bytes, and only the ledger brings it back. */
  readonly isBegun: boolean;
  /** Changes with each copy that arrives: the worker that brought the copy has let go of it. */
  readonly mark: string;
}

/** A run that no longer owns anything, with the bytes of its task. */
export interface LostRun {
  readonly epoch: number;
  readonly envelope: Envelope;
}

export type BuryItem =
  | {
      readonly kind: 'run';
      readonly ref: RunRef;
      readonly reason: string;
      readonly error: ErrorRecord;
    }
  /** A message that never became a run: `id` is its own or derived from a digest, the bytes are kept unchanged. */
  | {
      readonly kind: 'message';
      readonly envelope: Envelope;
      readonly reason: string;
      readonly error: ErrorRecord;
    };

/**
 * `expired`: every incarnation whose deadline passed. Others are closed because a supervisor saw them exit, and `death` is
 * how.
 */
export type CondemnTarget =
  | { readonly kind: 'expired' }
  | { readonly kind: 'process'; readonly process: string; readonly death?: Death }
  | { readonly kind: 'worker'; readonly worker: string };

export interface CondemnReply {
  readonly workers: readonly string[];
  /** How each of them ended, in their order. */
  readonly deaths: readonly (Death | null)[];
  /** The store's clock, so that a reaper notices when it jumps. */
  readonly storeMs: number;
}

export interface ReapReply {
  readonly returned: readonly LostTask[];
  readonly buried: readonly LostTask[];
  /** True: there may be more to bring back. */
  readonly more: boolean;
  /** The store's clock: a reaper reads it before it condemns a process. */
  readonly storeMs: number;
}

export interface LostTask extends TaskRef {
  readonly crashes: number;
  /** The incarnation that ran it. */
  readonly worker: string;
  /** How that ended; null: an older version closed it. */
  readonly death: Death | null;
}

/** `terminal`: it was done or dead already. */
export type CancelStatus = 'ok' | 'terminal';

/** The states of a record. */
export type TaskState = 'waiting' | 'running' | 'done' | 'dead' | 'cancelled';

/**
 * After a process died with many tasks, one of them may have killed it, and it is unknown which. Run together again, the
 * culprit would use up the others' budgets; run one by one, the innocent would wait for each other. So the first crash
 * only costs a second try; a task with two crashes, or with none to spare, is a suspect, and no two suspects run at the
 * same time: the next death then points to one task.
 */
export function isSuspect(crashes: number, crashBudget: number): boolean {
  return crashes > 0 && crashes >= Math.min(2, crashBudget);
}
