import {
  type NewTask,
  type OutboxWriter,
  type WriteAnswer,
  inLockOrder,
} from '../../outbox/outbox-writer.ts';
import { withProof } from '../sql/proofs.ts';
import {
  type Executor,
  type TextRow,
  failedTransaction,
  notInTransaction,
} from '../../outbox/transaction-adapter.ts';
import { type Clock, systemRandom } from '../../runtime/runtime.ts';
import type { ChordNote } from '../../task/chord-link.ts';
import type { SendTarget, WriterOptions } from '../sql/dialect.ts';
import { noteText } from './postgres-chord.ts';
import { translatePgError } from './pg-errors.ts';
import { INTO_LEDGER, INTO_OUTBOX, type Insertions, isPlain } from './postgres-insertions.ts';
import { SQL } from './sql.generated.ts';
import { WITHDRAWN_KEEP_MS } from './postgres-letters.ts';

const ROWS_PER_STATEMENT = 1_000;
/** For how long a sender that has learned of a broker writes rows of the outbox before it looks again. */
const RELAYED_MS = 10_000;

/** Writes tasks into the user's open transaction, through whatever library it belongs to. */
export class PostgresOutboxWriter<Tx> implements OutboxWriter<Tx> {
  readonly #executor: Executor<Tx>;
  readonly #notifyLimit: NotifyLimit;
  readonly #clock: Clock;
  readonly #target: SendTarget;
  readonly #onRelayed: () => void;
  #relayedUntil = -Infinity;

  constructor(
    executor: Executor<Tx>,
    clock: Clock,
    { target = 'outbox', onRelayed = () => undefined }: WriterOptions = {},
  ) {
    this.#executor = executor;
    this.#clock = clock;
    this.#target = target;
    this.#onRelayed = onRelayed;
    this.#notifyLimit = new NotifyLimit(clock);
  }

  get #insertions(): Insertions {
    if (this.#target === 'outbox') return INTO_OUTBOX;
    const isRelayed =
      this.#relayedUntil !== -Infinity && this.#clock.monotonic() < this.#relayedUntil;
    return isRelayed ? INTO_OUTBOX : INTO_LEDGER;
  }

  write(
    tx: Tx,
    tasks: readonly NewTask[],
    ready: Promise<void> | null = null,
  ): Promise<readonly WriteAnswer[]> {
    const [only] = tasks;
    if (!only) return Promise.resolve([]);
    if (!this.#executor.isCertain(tx) || this.#isBound(tasks, ready))
      return this.#inside(
        tx,
        async proof => {
          await ready;
          return await this.#writeAny(tx, tasks, proof);
        },
        this.#isBound(tasks, ready),
      );
    if (ready !== null) return ready.then(() => this.write(tx, tasks));
    if (tasks.length === 1 && isPlain(only)) return this.#writeNew(tx, only);
    return this.#writeAny(tx, tasks, null);
  }

  async isInTransaction(tx: Tx): Promise<boolean> {
    const mark = await this.#mark(tx);
    const [row] = await this.#execute(tx, SQL.transactionCheck, [mark]);
    return row?.['is_open'] === 'yes';
  }

  async noteChords(tx: Tx, chords: readonly ChordNote[]): Promise<void> {
    await this.#inside(
      tx,
      async proof => void (await this.#execute(tx, SQL.chordNote, [noteText(chords), proof])),
    );
  }

  async cancel(tx: Tx, id: string): Promise<void> {
    await this.#execute(tx, SQL.cancel, [id, String(WITHDRAWN_KEEP_MS)]);
  }

  /**
   * Runs a statement that writes, at once if the library knows that the transaction is open. Otherwise the transaction is
   * marked, and the statement writes only where the mark is.
   */
  #inside<T>(tx: Tx, write: (proof: string | null) => Promise<T>, isBound = false): Promise<T> {
    if (!isBound && this.#executor.isCertain(tx)) return write(null);
    return withProof(tx, () => this.#mark(tx), write);
  }

  /**
   * What is not written by the first statement has to be bound to the transaction in which the send was called: when its turn
   * comes, the caller may have rolled back and begun another one on the same connection.
   */
  #isBound(tasks: readonly NewTask[], ready: Promise<void> | null): boolean {
    if (this.#executor.isLenient) return false;
    return (
      ready !== null ||
      tasks.length > ROWS_PER_STATEMENT ||
      tasks.some(task => task.orderingKey !== null)
    );
  }

  async #mark(tx: Tx): Promise<string> {
    const [row] = await this.#execute(tx, SQL.transactionMark, [systemRandom.token()]);
    return row?.['marked'] ?? '';
  }

  /** The path of most tasks: it does only what is necessary. */
  #writeNew(tx: Tx, task: NewTask): Promise<readonly [WriteAnswer]> {
    const { text, values } = this.#insertions.one(task, this.#notifyLimit.take());
    return this.#insert(tx, text, values).then(
      ([row]) => (row?.['mark'] ? this.#writeRelayed(tx, task, row['mark']) : WRITTEN),
      refused,
    );
  }

  async #writeRelayed(tx: Tx, task: NewTask, mark: string): Promise<readonly [WriteAnswer]> {
    const [answer = NEW] = await this.#writeRows(tx, [task], mark);
    return [answer];
  }

  /**
   * A relay takes the outbox to a broker of which this sender was not told: tasks in the ledger here would wait for ever. They
   * become rows of the outbox in the same transaction, which has the mark.
   */
  #writeRows(tx: Tx, tasks: readonly NewTask[], mark: string): Promise<readonly WriteAnswer[]> {
    this.#relayedUntil = this.#clock.monotonic() + RELAYED_MS;
    this.#onRelayed();
    return this.#writeMany(tx, tasks, this.#executor.isLenient ? null : mark, INTO_OUTBOX);
  }

  async #writeAny(
    tx: Tx,
    tasks: readonly NewTask[],
    proof: string | null,
  ): Promise<readonly WriteAnswer[]> {
    const only = tasks.length === 1 ? (tasks[0] as NewTask) : null;
    if (tasks.some(task => task.orderingKey !== null)) await this.#lockKeys(tx, tasks);
    // Asked again: the caller may have ended the transaction since.
    if (only !== null && proof === null && this.#executor.isCertain(tx)) {
      if (only.idempotencyKey === null && only.isIdDrawn) return await this.#writeNew(tx, only);
      const { keyed } = this.#insertions;
      if (only.idempotencyKey !== null && keyed !== null)
        return [await this.#writeKeyed(tx, only, keyed)];
    }
    const ordered = inLockOrder(tasks);
    const answers = new Map<NewTask, WriteAnswer>();
    for (let at = 0; at < ordered.length; at += ROWS_PER_STATEMENT) {
      const part = ordered.slice(at, at + ROWS_PER_STATEMENT);
      const write = (mark: string | null) => this.#writeMany(tx, part, mark, this.#insertions);
      const given = await (proof === null ? this.#inside(tx, write) : write(proof));
      for (const [index, task] of part.entries()) answers.set(task, given[index] as WriteAnswer);
    }
    return tasks.map(task => answers.get(task) as WriteAnswer);
  }

  /** All keys in one statement and in one order, before the first id is drawn. */
  async #lockKeys(tx: Tx, tasks: readonly NewTask[]): Promise<void> {
    const keys = new Set(tasks.flatMap(task => task.orderingKey ?? []));
    await this.#execute(tx, SQL.lockOrderingKeys, [JSON.stringify([...keys])]);
  }

  async #writeKeyed(tx: Tx, task: NewTask, text: string): Promise<WriteAnswer> {
    const values = Object.values(this.#insertions.rowTexts(task)) as (string | null)[];
    const [row] = await this.#execute(tx, text, [...values, this.#notify()]);
    if (row?.['written'] === '1') return { kind: 'new' };
    return await this.#judge(tx, task, row ?? {});
  }

  /** The same id twice in a batch is one row: the second is compared with the first, here, where both are known. */
  async #writeMany(
    tx: Tx,
    tasks: readonly NewTask[],
    proof: string | null,
    into: Insertions,
  ): Promise<readonly WriteAnswer[]> {
    const firsts = new Map<string, NewTask>();
    for (const task of tasks) {
      if (!firsts.has(task.id)) firsts.set(task.id, task);
    }
    const rows = [...firsts.values()];
    const answers = new Map<NewTask, WriteAnswer>();
    const inTheWay = await this.#execute(tx, into.many, [
      JSON.stringify(rows.map(into.rowTexts)),
      this.#notify(),
      proof,
    ]);
    for (const row of inTheWay) {
      if (row['place'] === '0') throw notInTransaction('none');
      if (row['place'] === 'relayed') return await this.#writeRows(tx, tasks, row['held_by'] ?? '');
      const task = rows[Number(row['place']) - 1];
      if (task === undefined) continue;
      const isUnseen = row['held_by'] === null && row['earlier_digest'] === null;
      const now = isUnseen ? await this.#lookAgain(tx, task, proof, into) : row;
      answers.set(task, now === null ? { kind: 'new' } : await this.#judge(tx, task, now));
    }
    return tasks.map(task => {
      const first = firsts.get(task.id) ?? task;
      if (first === task) return answers.get(task) ?? { kind: 'new' };
      const isSame = first.digest === task.digest;
      return isSame ? { kind: 'earlier', id: task.id } : { kind: 'id-mismatch' };
    });
  }

  /**
   * What is in the way was committed after our statement began. If it is the tombstone of a task that was cancelled before it
   * came, only a further statement gives it the bytes. Null: it has gone, and the task was written.
   */
  async #lookAgain(
    tx: Tx,
    task: NewTask,
    proof: string | null,
    { many, rowTexts }: Insertions,
  ): Promise<TextRow | null> {
    const rows = JSON.stringify([rowTexts(task)]);
    const [row] = await this.#execute(tx, many, [rows, this.#notify(), proof]);
    if (row?.['place'] === '0') throw notInTransaction('none');
    return row ?? null;
  }

  #notify(): string | null {
    return this.#notifyLimit.take() ? 'yes' : null;
  }

  /** Why a row was not written: its key or its id belongs to another task, or it was sent before. */
  async #judge(tx: Tx, task: NewTask, row: TextRow): Promise<WriteAnswer> {
    const heldBy = row['held_by'] ?? null;
    if (heldBy !== null) {
      return row['held_fingerprint'] === task.fingerprint
        ? { kind: 'earlier', id: heldBy }
        : { kind: 'key-mismatch' };
    }
    const digest = row['earlier_digest'] ?? (await this.#readDigest(tx, task.id));
    // Unknown by now: it was sent, and is done and forgotten.
    return digest === null || digest === task.digest
      ? { kind: 'earlier', id: task.id }
      : { kind: 'id-mismatch' };
  }

  /** The conflicting row may have been committed after our statement began: only the next one sees it. */
  async #readDigest(tx: Tx, id: string): Promise<string | null> {
    const [row] = await this.#execute(tx, SQL.readDigest, [id]);
    return row?.['digest'] ?? null;
  }

  #execute(tx: Tx, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]> {
    return this.#executor.execute(tx, text, values).catch(refused);
  }

  /** An INSERT of values reads nothing, so its plan stays good. */
  #insert(tx: Tx, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]> {
    const kept = this.#executor.executeKept?.(tx, text, values);
    return kept ?? this.#executor.execute(tx, text, values);
  }
}

const NEW: WriteAnswer = Object.freeze({ kind: 'new' });
const WRITTEN: readonly [WriteAnswer] = Object.freeze([NEW]);

function refused(error: unknown): never {
  // The driver may not have known yet that the transaction had failed; the server did.
  if ((error as { readonly code?: unknown } | null)?.code === '25P02')
    throw failedTransaction(error);
  throw translatePgError(error);
}

const PER_SECOND = 50;
const BURST = 10;

/**
 * How often a process notifies relays. A commit that notifies holds a lock of the whole server until it is on the disk:
 * many connections would commit one after the other. Above this rate relays find rows by polling: a relay that has just
 * found some polls again soon.
 */
export class NotifyLimit {
  readonly #clock: Clock;
  #left = BURST;
  #countedAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#countedAt = clock.monotonic();
  }

  /** Whether the next send may notify; if so, it is counted. */
  take(): boolean {
    const now = this.#clock.monotonic();
    this.#left = Math.min(BURST, this.#left + ((now - this.#countedAt) / 1_000) * PER_SECOND);
    this.#countedAt = now;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
