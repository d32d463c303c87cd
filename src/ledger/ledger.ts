import type { PurgeReply, PurgeRequest, ReviveStatus } from '../outbox/outbox-store.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Reply } from '../wire/reply.ts';

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
 * Only `begin` and `lift` move the epoch; only `condemn` judges death. A record that is not there never counts
 * as success: the answer is `absent` and nothing is written.
 */
export interface Ledger {
  /**
   * It is on the broker's own server: `begin` acknowledges the messages it is given tags of in the same step, so that
   * they need no answer of their own. Missing: it does not.
   */
  readonly acknowledges?: boolean;
  /** Opens a new incarnation of a worker process, with its lease. */
  open(worker: WorkerOpening): Promise<void>;
  /** Hands out tasks: of the messages given, and up to `limit` that are waiting and due. */
  begin(request: BeginRequest): Promise<BeginReply>;
  /** Moves the one deadline of a whole process, and says what the store thinks it runs. */
  renew(worker: string): Promise<RenewReply>;
  /** Stores progress; `seq` must grow within a run, so progress never moves backwards. */
  checkpoint(run: RunRef, seq: number, data: Uint8Array): Promise<StepStatus>;
  /**
   * Raises the epoch of a run above one that a fence elsewhere has seen: the ledger has forgotten who had it. Below the
   * run's own epoch nothing moves, and the answer says whether it still owns its task.
   */
  lift(run: RunRef, above: number): Promise<LiftReply>;
  commit(items: readonly CommitItem[]): Promise<readonly StepStatus[]>;
  /** A failed attempt, or a crash that hurt nobody else: waits `delayMs`, or is dead when that is null. */
  fail(items: readonly FailItem[]): Promise<readonly StepStatus[]>;
  /**
   * Gives back what could not be finished; nothing counted. Due as before, so in front of what came later, or after
   * `delayMs` where there is something to wait for.
   */
  release(items: readonly ReleaseItem[]): Promise<readonly StepStatus[]>;
  /** What those tasks waited for is there: the waiting ones become due now, all others are left alone. Polling must do without. */
  wake(ids: readonly string[]): Promise<void>;
  /**
   * Takes custody of messages whose time has not come. A record that is there already is left alone; the same id with
   * other bytes is buried under id and digest, so that it neither runs nor vanishes.
   */
  park(items: readonly ParkItem[]): Promise<void>;
  /**
   * Takes custody again of tasks it has handed out and then forgotten with all it knew: waiting, due now. Those that are
   * known, or were handed out since, are left alone. A ledger that does not lose its memory has no such step.
   */
  rescue?(runs: readonly LostRun[]): Promise<void>;
  /** Ends runs, and messages that can never run, as dead letters. */
  bury(items: readonly BuryItem[]): Promise<readonly StepStatus[]>;
  /** Closes incarnations that are dead: nothing begins under them afterwards. A commit that lands before `reap` counts. */
  condemn(target: CondemnTarget): Promise<CondemnReply>;
  /** Brings back up to `limit` tasks that closed incarnations were running. */
  reap(limit: number): Promise<ReapReply>;
  /** A dead task waits again, once: the version names the death that is undone. */
  revive(id: string, version: number): Promise<ReviveStatus>;
  /**
   * Ends up to `limit` dead tasks that match, oldest death first: their bytes, errors and steps are gone at once. A tombstone
   * stays for a day, so that a late copy from a broker does not run. A dry run counts all and changes nothing.
   */
  purgeDead(request: PurgeRequest): Promise<PurgeReply>;
  /** Leaves a tombstone, whether or not the task has arrived: it never comes back. */
  cancel(id: string): Promise<CancelStatus>;
  /** Forgets up to `limit` tombstones whose time is over; they stay in the sums. Returns how many. */
  prune(limit: number): Promise<number>;
  readonly after: AfterLog;
  /**
   * Counts a part of a chord: once, however often it is told, and a result takes the place of a failure but never the
   * other way round. Of those who add the last parts at the same time at least one is told `complete`; several may be,
   * and send the same body under the same id.
   */
  joinChord(part: ChordPart): Promise<ChordAnswer>;
  /**
   * The broker has the body of a chord: who tells a part of it again is told `open`, and sends no copy. Missing: he does, and
   * the ledger drops the copy where the body comes to a worker of ours.
   */
  closeChord?(groupId: string): Promise<void>;
  /** Forgets up to `limit` chords that are not complete and have had no part for a week. Returns their group ids. */
  abandonChords(limit: number): Promise<readonly string[]>;
  /** Calls `hint` when tasks may have become ready. Only a hint: polling must do without. Returns the undo. */
  onReady(hint: () => void): () => void;
}

/**
 * What must follow a terminal step but lives elsewhere; written by that step, struck off when it is done. What follows a
 * task that is done or discarded comes with its `commit`. Every other ending (dead, cancelled, expired) of a task whose
 * body says that something follows, or whose sender waits for an answer, is written down by the store itself, as an
 * `EndedEntry`, whichever step it was.
 */
export interface AfterLog {
  /** Entries older than `olderThanMs`: whoever wrote them has not carried them out. */
  list(olderThanMs: number, limit: number): Promise<readonly AfterEntry[]>;
  strike(keys: readonly string[]): Promise<void>;
}

/** The key derives from the task and the position: writing an entry twice is writing it once. */
export type AfterEntry = FollowUp | EndedEntry;

/** What follows a task directly. */
export type FollowUp = PublishEntry | ChordPartEntry | ReplyEntry;

/** A task to be sent. */
export interface PublishEntry {
  readonly key: string;
  readonly publish: Envelope;
}

/** A part of a chord to be counted; whoever completes the count sends the body. */
export interface ChordPartEntry {
  readonly key: string;
  readonly part: ChordPart;
  /** The signature of the chord's body. */
  readonly body: string;
  readonly parent: Parent;
}

/** An answer that the sender of the task waits for. */
export interface ReplyEntry {
  readonly key: string;
  readonly reply: Reply;
}

/** A task that ended otherwise than done: its error links and its chord must hear of it. */
export interface EndedEntry {
  readonly key: string;
  readonly ended: EndedTask;
}

export interface EndedTask {
  readonly envelope: Envelope;
  readonly how: 'dead' | 'discarded' | 'cancelled' | 'expired';
  readonly epoch: number;
  /** Why, where whoever tells of it knows; an entry of the store does not say it. */
  readonly error?: ErrorRecord;
  readonly why?: string;
}

/** The key of the entry that a store writes when a task ends otherwise than done. */
export const endedKey = (id: string, epoch: number): string => `${id}/ended:${epoch}`;

/** What a task hands down to those that follow it. */
export interface Parent {
  readonly id: string;
  readonly rootId: string;
  readonly queue: string;
  readonly deadlineMs: number | null;
  /** Whom the task is for. */
  readonly tenant?: string;
}

export interface ChordPart {
  readonly groupId: string;
  readonly index: number;
  /** How many parts the chord has; null: its sender did not say, so it cannot be completed here. */
  readonly size: number | null;
  readonly taskId: string;
  /** The id of the chord's body, where its sender gave it one: those who wait for it can be told that it will not come. */
  readonly bodyId?: string;
  /** JSON text; null: the task ended otherwise than done. */
  readonly result: string | null;
}

/**
 * `complete`: every part is there; the results in their order. `failed`: this part ended otherwise than done, and has not
 * been made good since; `taskId` where another part did, which was not counted here. `open`: neither.
 */
export type ChordAnswer =
  | { readonly status: 'open' }
  | { readonly status: 'failed'; readonly taskId?: string }
  | { readonly status: 'complete'; readonly results: readonly string[] };

export interface WorkerOpening {
  /** The incarnation: drawn anew each time, never used again. */
  readonly worker: string;
  /** The operating-system process, named by its supervisor before it starts. */
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly leaseMs: number;
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
  /** Nobody has asked under this run before: there is nothing to look for. A hint. */
  readonly isFirst?: boolean;
  /** In order of preference. */
  readonly queues: readonly string[];
  /** How many waiting tasks to hand out beside the messages. */
  readonly limit: number;
  /** How many suspects may be handed out, messages included: a suspect runs beside no other (`isSuspect`). */
  readonly suspects: number;
  readonly messages: readonly Envelope[];
  /** The broker's tags of the messages, for a ledger that acknowledges. */
  readonly tags?: readonly string[];
  /**
   * Where the tasks run, for those who wait for their results: Celery's STARTED, in a ledger whose results Celery reads.
   * Left out: they are not told.
   */
  readonly runsAt?: RunsAt;
  /** How often a task may lose its worker, by task name; `*` for the others. */
  readonly crashBudgets: Readonly<Record<string, number>>;
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
  /** Waiting tasks whose `expires` had passed: ended as cancelled, never run. Of messages the answers say it. */
  readonly expired: readonly TaskRef[];
  /** Milliseconds until a waiting task of these queues becomes due; null when there is none. A hint. */
  readonly nextDueMs: number | null;
}

/**
 * `begun` runs now. `held`: the ledger has it (waiting, running, dead, cancelled). `done`: finished
 * before. `expired`: its time is over. `conflict`: same id, other bytes; the newcomer must be buried.
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
}

export interface TaskRef {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
}

export type RenewReply =
  | { readonly status: 'closed' }
  | { readonly status: 'open'; readonly runs: readonly RunRef[] };

/**
 * `ok`: done now, or it was this very step that did it before. `stale`: another run owns the task, or it ended
 * otherwise. `absent`: there is no record, so nothing is known and nothing was written.
 */
export type StepStatus = 'ok' | 'stale' | 'absent';

/** `ok`: the run owns its task, and from now on under this epoch. */
export type LiftReply =
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
}

export type Outcome =
  | { readonly kind: 'done'; readonly result: Uint8Array | null }
  | { readonly kind: 'discarded'; readonly why: string };

export interface FailItem {
  readonly ref: RunRef;
  readonly error: ErrorRecord;
  /** Null: no attempt is left, the task is dead. */
  readonly delayMs: number | null;
  /** The code told as the reason of a death. */
  readonly reason: string;
  /** The run took its own thread or process with it: counted as a crash and not as a failed attempt, due as before. */
  readonly isCrash?: boolean;
}

/** An error as it is kept: texts only, cut to a bounded length by whoever makes it. */
export interface ErrorRecord {
  readonly type: string;
  readonly message: string;
  readonly traceback: string;
}

export interface ParkItem {
  readonly envelope: Envelope;
  readonly delayMs: number;
}

/** A run that owns nothing any more, with the bytes of its task. */
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
  /** A message that never became a run: `id` is its own or made of a digest, the bytes are kept as they came. */
  | {
      readonly kind: 'message';
      readonly envelope: Envelope;
      readonly reason: string;
      readonly error: ErrorRecord;
    };

/** `expired`: every incarnation whose deadline passed. Others are closed because somebody saw them end. */
export type CondemnTarget =
  | { readonly kind: 'expired' }
  | { readonly kind: 'process'; readonly process: string }
  | { readonly kind: 'worker'; readonly worker: string };

export interface CondemnReply {
  readonly workers: readonly string[];
  /** The store's clock, so that a reaper notices when it jumps. */
  readonly storeMs: number;
}

export interface ReapReply {
  readonly returned: readonly (TaskRef & { readonly crashes: number })[];
  readonly buried: readonly (TaskRef & { readonly crashes: number })[];
  /** True: there may be more to bring back. */
  readonly more: boolean;
  /** The store's clock: a reaper asks for it before it condemns anybody. */
  readonly storeMs: number;
}

/** `terminal`: it was done or dead already. */
export type CancelStatus = 'ok' | 'terminal';

/** The states of a record. */
export type TaskState = 'waiting' | 'running' | 'done' | 'dead' | 'cancelled';
