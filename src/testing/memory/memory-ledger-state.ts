import {
  type AfterEntry,
  type ChordPart,
  type ErrorRecord,
  endedKey,
} from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import type { Clock } from '../../runtime/runtime.ts';
import type { Envelope } from '../../task/envelope.ts';
import { hasFollowUps } from '../../task/signature.ts';
import { wantsReply } from '../../wire/reply.ts';
import type { LedgerGuards } from './memory-ledger-guards.ts';
import { MemoryTallies } from './memory-tallies.ts';
import {
  type Journal,
  type JournalEntry,
  type LedgerStep,
  type TaskRecord,
  type WorkerRow,
  copyEnvelope,
  newRecord,
  remember,
} from './memory-record.ts';

/** As in PostgreSQL: without a configured window a record is kept for a day. */
const DEFAULT_KEEP_MS = 86_400_000;
const NO_BYTES = new Uint8Array();

export interface LedgerStateOptions {
  /** The store's clock: the only one that counts here. */
  readonly clock: Pick<Clock, 'now'>;
  readonly guards: LedgerGuards;
  readonly journal: Journal;
}

export interface LoggedEntry {
  readonly entry: AfterEntry;
  /** When it was written, or is due again. */
  readonly dueMs: number;
}

export interface JoinedPart extends ChordPart {
  readonly joinedMs: number;
}

/** The tables of the ledger, and the few transitions that all its steps consist of. */
export class MemoryLedgerState {
  readonly records: Map<string, TaskRecord> = new Map();
  #refusals = 0;
  readonly workers: Map<string, WorkerRow> = new Map();
  readonly after: Map<string, LoggedEntry> = new Map();
  /** Parts of chords, by group and index. */
  readonly chords: Map<string, Map<number, JoinedPart>> = new Map();
  /** Steps done through the effect-once door, by task; they are dropped with its tombstone. */
  readonly steps: Map<string, Map<string, { readonly value: Uint8Array | null }>> = new Map();
  /** Tasks that ended and were forgotten since, so that the sums stay complete. */
  readonly forgotten: Map<Ending, number> = new Map();
  readonly tallies: MemoryTallies = new MemoryTallies(this);
  /** Raised by a test that takes the newest steps away from this ledger. */
  generation = 0;
  readonly guards: LedgerGuards;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #journal: Journal;
  readonly #hints = new Set<() => void>();
  #order = 0;

  constructor(options: LedgerStateOptions) {
    this.guards = options.guards;
    this.#clock = options.clock;
    this.#journal = options.journal;
  }

  get nowMs(): number {
    return this.#clock.now();
  }

  onReady(hint: () => void): () => void {
    this.#hints.add(hint);
    return () => void this.#hints.delete(hint);
  }

  hint(): void {
    for (const hint of this.#hints) hint();
  }

  /** Puts a new record; its first transition follows in the same step. */
  put(id: string, envelope: Envelope | null): TaskRecord {
    const record = newRecord(id, envelope, ++this.#order, this.nowMs);
    this.records.set(id, record);
    return record;
  }

  note(record: TaskRecord, step: LedgerStep): void {
    const { id, epoch, run, worker, state } = record;
    const atMs = this.nowMs;
    this.#journal({ step, id, epoch, run, worker, atMs, state, deadlineMs: null, cause: null });
  }

  noteWorker(row: WorkerRow, step: LedgerStep, cause: JournalEntry['cause']): void {
    const { worker, deadlineMs } = row;
    const atMs = this.nowMs;
    this.#journal({
      step,
      id: '',
      epoch: 0,
      run: '',
      worker,
      atMs,
      state: null,
      deadlineMs,
      cause,
    });
  }

  /** Null: due as before, so before later tasks. */
  wait(record: TaskRecord, delayMs: number | null): void {
    record.state = 'waiting';
    record.refused = null;
    if (delayMs !== null) record.dueMs = this.nowMs + delayMs;
    // Sent now even when it is due later: the listener asks for `nextDueMs`.
    this.hint();
  }

  /** Set aside: another worker may run what this one cannot. */
  refuse(record: TaskRecord, worker: string): void {
    this.#refusals += 1;
    record.refused = { worker, atMs: this.nowMs, mark: String(this.#refusals) };
    remember(record, 'refused', this.nowMs);
    this.note(record, 'refuse');
    this.hint();
  }

  /** A copy of a task that is set aside: its worker has released it, and it knows more about refusals. */
  copyCame(record: TaskRecord, envelope: Envelope, refusedBy: string | undefined): void {
    const { refused, epoch } = record;
    if (refused === null || epoch > 0 || record.envelope?.digest !== envelope.digest) return;
    record.envelope = copyEnvelope(envelope);
    this.refuse(record, refusedBy ?? refused.worker);
  }

  die(record: TaskRecord, reason: string, error: ErrorRecord): void {
    record.state = 'dead';
    record.refused = null;
    record.version += 1;
    record.why = reason;
    record.error = error;
    this.#end(record, 'dead');
    // A task that was never begun is a message that could not be read as one: it has no follow-ups.
    if (record.epoch > 0 && reason !== 'ERR_DIGEST') this.#writeEnded(record, 'dead');
  }

  /** The bytes are dropped at the end: only dead tasks need them again. */
  finish(
    record: TaskRecord,
    ending: 'done' | 'discarded',
    keep: { readonly dedupMs: number; readonly resultMs: number },
  ): void {
    record.state = 'done';
    record.dedupUntilMs = this.nowMs + keep.dedupMs;
    record.resultUntilMs = this.nowMs + keep.resultMs;
    record.checkpoint = null;
    this.#dropBytes(record);
    this.#end(record, ending);
  }

  withdraw(record: TaskRecord, ending: 'cancelled' | 'expired'): void {
    record.state = 'cancelled';
    record.dedupUntilMs = this.nowMs + DEFAULT_KEEP_MS;
    this.#writeEnded(record, ending);
    this.#dropBytes(record);
    this.#end(record, ending);
    remember(record, ending, this.nowMs);
    this.note(record, ending === 'expired' ? 'expire' : 'cancel');
    record.worker = '';
  }

  /** It was cancelled before it came: only now its follow-ups are known. It replaces the tombstone, once. */
  comeCancelled(record: TaskRecord, envelope: Envelope): void {
    if (!isFollowed(envelope)) return;
    record.envelope = copyEnvelope(envelope);
    this.#writeEnded(record, 'cancelled');
    this.#dropBytes(record);
  }

  /** The data of a dead task is dropped; its tombstone rejects late copies. */
  purge(record: TaskRecord): void {
    record.state = 'cancelled';
    record.dedupUntilMs = this.nowMs + DEFAULT_KEEP_MS;
    if (record.envelope !== null) record.envelope = { ...record.envelope, options: NO_BYTES };
    this.#dropBytes(record);
    Object.assign(record, { error: null, checkpoint: null, history: [] });
    this.steps.delete(record.id);
    remember(record, 'purged', this.nowMs);
    this.note(record, 'purge');
  }

  forget(record: TaskRecord): void {
    this.records.delete(record.id);
    this.steps.delete(record.id);
    const ending = record.ending ?? 'cancelled';
    this.forgotten.set(ending, (this.forgotten.get(ending) ?? 0) + 1);
    this.note(record, 'prune');
  }

  #end(record: TaskRecord, ending: Ending): void {
    record.ending = ending;
    record.endedMs = this.nowMs;
    this.tallies.count(record, ending);
  }

  /** A task that ended other than done owes its followers a notification. */
  #writeEnded(record: TaskRecord, how: 'dead' | 'cancelled' | 'expired'): void {
    const { id, epoch, envelope } = record;
    if (envelope === null || envelope.body.length === 0) return;
    if (!isFollowed(envelope)) return;
    this.writeAfter({ key: endedKey(id, epoch), ended: { envelope, how, epoch } });
  }

  /** Written once, however often it is repeated. */
  writeAfter(entry: AfterEntry, dueMs: number = this.nowMs): void {
    if (!this.after.has(entry.key)) this.after.set(entry.key, { entry, dueMs });
  }

  #dropBytes(record: TaskRecord): void {
    if (record.envelope !== null) record.envelope = { ...record.envelope, body: NO_BYTES };
  }
}

const isFollowed = (envelope: Envelope): boolean =>
  hasFollowUps(envelope.body) || wantsReply(envelope);
