import {
  type NewTask,
  type OutboxWriter,
  type WriteAnswer,
  inLockOrder,
  rowVersionOf,
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
import { EMBED } from '../../task/signature.ts';
import { noteText } from './postgres-chord.ts';
import { translatePgError } from './pg-errors.ts';
import { SQL } from './sql.generated.ts';

const ROWS_PER_STATEMENT = 1_000;
/** A second send with the same key returns the first task's handle for this long. */
const KEY_WINDOW_MS = '86400000';

/** The parameters of `enqueue.sql`: all but the key, its fingerprint and its window. */
const UNKEYED_VALUES = 17;

interface RowTexts {
  readonly task_id: string;
  readonly task_name: string;
  readonly queue: string;
  readonly priority: string;
  readonly args: string;
  readonly kwargs: string;
  readonly embed: string;
  readonly options: string;
  readonly digest: string;
  readonly schema_version: string;
  readonly payload_version: string;
  readonly eta_ms: string | null;
  readonly expires_ms: string | null;
  readonly ordering_key: string | null;
  readonly parks_key: string;
  readonly redacted_args: string | null;
  readonly redacted_kwargs: string | null;
  readonly idempotency_key: string | null;
  readonly fingerprint: string;
  readonly key_window_ms: string;
}

/** Writes tasks into the user's open transaction, through whatever library it belongs to. */
export class PostgresOutboxWriter<Tx> implements OutboxWriter<Tx> {
  readonly #executor: Executor<Tx>;
  readonly #notifyLimit: NotifyLimit;

  constructor(executor: Executor<Tx>, clock: Clock) {
    this.#executor = executor;
    this.#notifyLimit = new NotifyLimit(clock);
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
    if (tasks.length === 1 && isPlain(only)) return this.#writePlain(tx, only);
    return this.#writeAny(tx, tasks, null);
  }

  async isInTransaction(tx: Tx): Promise<boolean> {
    const token = systemRandom.token();
    await this.#execute(tx, SQL.transactionMark, [token]);
    const [row] = await this.#execute(tx, SQL.transactionCheck, [token]);
    return row?.['is_open'] === 'yes';
  }

  async noteChords(tx: Tx, chords: readonly ChordNote[]): Promise<void> {
    await this.#inside(
      tx,
      async proof => void (await this.#execute(tx, SQL.chordNote, [noteText(chords), proof])),
    );
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
    const proof = systemRandom.token();
    await this.#execute(tx, SQL.transactionMark, [proof]);
    return proof;
  }

  /** The path of most tasks: it does only what is necessary. */
  #writePlain(tx: Tx, task: NewTask): Promise<readonly WriteAnswer[]> {
    const text = this.#notifyLimit.take() ? SQL.enqueuePlainNotify : SQL.enqueuePlain;
    return this.#insert(tx, text, plainValues(task)).then(written, refused);
  }

  async #writeAny(
    tx: Tx,
    tasks: readonly NewTask[],
    proof: string | null,
  ): Promise<readonly WriteAnswer[]> {
    const only = tasks.length === 1 ? (tasks[0] as NewTask) : null;
    if (tasks.some(task => task.orderingKey !== null)) await this.#lockKeys(tx, tasks);
    const isQuick = only !== null && (only.isIdDrawn || only.idempotencyKey !== null);
    // Asked again: the caller may have ended the transaction since.
    if (isQuick && proof === null && this.#executor.isCertain(tx))
      return [await this.#writeOne(tx, only)];
    const ordered = inLockOrder(tasks);
    const answers = new Map<NewTask, WriteAnswer>();
    for (let at = 0; at < ordered.length; at += ROWS_PER_STATEMENT) {
      const part = ordered.slice(at, at + ROWS_PER_STATEMENT);
      const write = (mark: string | null) => this.#writeMany(tx, part, mark);
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

  async #writeOne(tx: Tx, task: NewTask): Promise<WriteAnswer> {
    const values = Object.values(rowTexts(task)) as (string | null)[];
    if (task.idempotencyKey === null) {
      const text = this.#notifyLimit.take() ? SQL.enqueueNotify : SQL.enqueue;
      const [answer] = await this.#insert(tx, text, values.slice(0, UNKEYED_VALUES)).then(
        written,
        refused,
      );
      return answer;
    }
    const [row] = await this.#execute(tx, SQL.enqueueKeyed, [...values, this.#notify()]);
    if (row?.['written'] === '1') return { kind: 'new' };
    return await this.#judge(tx, task, row ?? {});
  }

  /** The same id twice in a batch is one row: the second is compared with the first, here, where both are known. */
  async #writeMany(
    tx: Tx,
    tasks: readonly NewTask[],
    proof: string | null,
  ): Promise<readonly WriteAnswer[]> {
    const firsts = new Map<string, NewTask>();
    for (const task of tasks) {
      if (!firsts.has(task.id)) firsts.set(task.id, task);
    }
    const rows = [...firsts.values()];
    const answers = new Map<NewTask, WriteAnswer>();
    const inTheWay = await this.#execute(tx, SQL.enqueueMany, [
      JSON.stringify(rows.map(rowTexts)),
      this.#notify(),
      proof,
    ]);
    for (const row of inTheWay) {
      if (row['place'] === '0') throw notInTransaction('none');
      const task = rows[Number(row['place']) - 1];
      if (task) answers.set(task, await this.#judge(tx, task, row));
    }
    return tasks.map(task => {
      const first = firsts.get(task.id) ?? task;
      if (first === task) return answers.get(task) ?? { kind: 'new' };
      const isSame = first.digest === task.digest;
      return isSame ? { kind: 'earlier', id: task.id } : { kind: 'id-mismatch' };
    });
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

const WRITTEN: readonly [WriteAnswer] = Object.freeze([Object.freeze({ kind: 'new' })]);

const written = (): readonly [WriteAnswer] => WRITTEN;

function refused(error: unknown): never {
  // The driver may not have known yet that the transaction had failed; the server did.
  if ((error as { readonly code?: unknown } | null)?.code === '25P02')
    throw failedTransaction(error);
  throw translatePgError(error);
}

/** Only a name and an object under a new id: like most tasks. */
const isPlain = (task: NewTask): boolean =>
  task.isIdDrawn &&
  task.call.args === '[]' &&
  task.embed === EMBED &&
  task.etaMs === null &&
  task.expiresMs === null &&
  task.orderingKey === null &&
  task.idempotencyKey === null &&
  task.redacted === null;

/** In the order of the parameters of `enqueue-plain.sql`. */
const plainValues = (task: NewTask): string[] => [
  task.id,
  task.name,
  task.queue,
  String(task.priority),
  byteaOf(task.call.kwargs),
  byteaOf(task.settings),
  task.digest,
  String(task.version),
];

// oxlint-disable-next-line no-control-regex -- it is about all of ASCII
const ASCII = /^[\u0000-\u007f]*$/;

/**
 * A text in PostgreSQL's format for bytes: ASCII unchanged, so that it need not be encoded and decoded. All else in digits,
 * because on its way a text is converted to the encoding of the database.
 */
function byteaOf(text: string): string {
  if (!ASCII.test(text)) return `\\x${Buffer.from(text).toString('hex')}`;
  return text.includes('\\') ? text.replaceAll('\\', '\\\\') : text;
}

/** In the order of the parameters of `enqueue-keyed.sql`, under the names of `enqueue-many.sql`. */
function rowTexts(task: NewTask): RowTexts {
  const { call, redacted } = task;
  return {
    task_id: task.id,
    task_name: task.name,
    queue: task.queue,
    priority: String(task.priority),
    args: base64(call.args),
    kwargs: base64(call.kwargs),
    embed: base64(task.embed),
    options: base64(task.settings),
    digest: task.digest,
    schema_version: String(rowVersionOf(task)),
    payload_version: String(task.version),
    eta_ms: task.etaMs === null ? null : String(task.etaMs),
    expires_ms: task.expiresMs === null ? null : String(task.expiresMs),
    ordering_key: task.orderingKey,
    parks_key: String(task.parksKey),
    redacted_args: redacted === null ? null : base64(redacted.args),
    redacted_kwargs: redacted === null ? null : base64(redacted.kwargs),
    idempotency_key: task.idempotencyKey,
    fingerprint: task.fingerprint,
    key_window_ms: KEY_WINDOW_MS,
  };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

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
