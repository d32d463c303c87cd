import {
  endedKey,
  type AfterEntry,
  type ChordPart,
  type ErrorRecord,
} from '../../ledger/ledger.ts';
import type { Ending } from '../../result/result-store.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { Envelope } from '../../task/envelope.ts';
import { hasFollowUps } from '../../task/signature.ts';
import { wantsReply } from '../../wire/reply.ts';
import type { LedgerGuards } from './memory-ledger-guards.ts';
import { copyEnvelope, newRecord, remember } from './memory-record.ts';
import type { Journal, JournalEntry, LedgerStep, TaskRecord, WorkerRow } from './memory-record.ts';

/** As in PostgreSQL: what nobody set a window for is kept a day. */
const DEFAULT_KEEP_MS = 86_400_000;
const NO_BYTES = new Uint8Array();

export interface LedgerStateOptions {
  /** The store's clock: the only one that counts here. */
  readonly clock: Pick<Clock, 'now'>;
  readonly guards: LedgerGuards;
  readonly journal: Journal;
}

export interface JoinedPart extends ChordPart {
  readonly joinedMs: number;
}

/** The tables of the ledger, and the few moves that all its steps are made of. */
export class MemoryLedgerState {
  readonly records: Map<string, TaskRecord> = new Map();
  readonly workers: Map<string, WorkerRow> = new Map();
  readonly after: Map<string, { readonly entry: AfterEntry; readonly atMs: number }> = new Map();
  /** Parts of chords, by group and place. */
  readonly chords: Map<string, Map<number, JoinedPart>> = new Map();
  /** Steps done through the effect-once door, by task; they go with its tombstone. */
  readonly steps: Map<string, Map<string, { readonly value: Uint8Array | null }>> = new Map();
  /** Tasks that ended and were forgotten since, so that nothing is lost from the sums. */
  readonly forgotten: Map<Ending, number> = new Map();
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

  /** Null: due as before, so in front of what came later. */
  wait(record: TaskRecord, delayMs: number | null): void {
    record.state = 'waiting';
    if (delayMs !== null) record.dueMs = this.nowMs + delayMs;
    // Told now even when it is due later: whoever hears it asks for `nextDueMs`.
    this.hint();
  }

  die(record: TaskRecord, reason: string, error: ErrorRecord): void {
    record.state = 'dead';
    record.version += 1;
    record.why = reason;
    record.error = error;
    this.#end(record, 'dead');
    // What was never begun is a message nobody could take for a task: nothing follows it.
    if (record.epoch > 0 && reason !== 'ERR_DIGEST') this.#writeEnded(record, 'dead');
  }

  /** Bytes are dropped with the end: only the dead need them again. */
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

  /** It was cancelled before it came: only now those who follow it are known. Its tombstone takes its place, once. */
  comeCancelled(record: TaskRecord, envelope: Envelope): void {
    if (!isFollowed(envelope)) return;
    record.envelope = copyEnvelope(envelope);
    this.#writeEnded(record, 'cancelled');
    this.#dropBytes(record);
  }

  /** What a dead task had is gone; its tombstone turns away late copies. */
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
  }

  /** Whoever ends a task otherwise than done owes word to those who follow it. */
  #writeEnded(record: TaskRecord, how: 'dead' | 'cancelled' | 'expired'): void {
    const { id, epoch, envelope } = record;
    if (envelope === null || envelope.body.length === 0) return;
    if (!isFollowed(envelope)) return;
    const key = endedKey(id, epoch);
    if (this.after.has(key)) return;
    this.after.set(key, { entry: { key, ended: { envelope, how, epoch } }, atMs: this.nowMs });
  }

  #dropBytes(record: TaskRecord): void {
    if (record.envelope !== null) record.envelope = { ...record.envelope, body: NO_BYTES };
  }
}

const isFollowed = (envelope: Envelope): boolean =>
  hasFollowUps(envelope.body) || wantsReply(envelope);
