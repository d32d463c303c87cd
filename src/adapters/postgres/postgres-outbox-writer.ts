import {
  rowVersionOf,
  type NewTask,
  type OutboxWriter,
  type WriteAnswer,
} from '../../outbox/outbox-writer.ts';
import {
  failedTransaction,
  type TextRow,
  type TransactionAdapter,
} from '../../outbox/transaction-adapter.ts';
import type { Clock } from '../../runtime/clock.ts';
import { EMBED } from '../../task/signature.ts';
import { NotifyLimit } from './notify-limit.ts';
import { translatePgError } from './pg-errors.ts';
import { SQL } from './sql.generated.ts';

const ROWS_PER_STATEMENT = 1_000;
/** A second send with the same key gives the first task's handle for this long. */
const KEY_WINDOW_MS = '86400000';

/** What `enqueue.sql` takes: all but the key, its fingerprint and its window. */
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
  readonly #adapter: TransactionAdapter<Tx>;
  readonly #notifyLimit: NotifyLimit;

  constructor(adapter: TransactionAdapter<Tx>, clock: Clock) {
    this.#adapter = adapter;
    this.#notifyLimit = new NotifyLimit(clock);
  }

  async write(tx: Tx, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]> {
    const [only] = tasks;
    if (!only) return [];
    if (tasks.some(task => task.orderingKey !== null)) await this.#lockKeys(tx, tasks);
    const isAlone = tasks.length === 1;
    if (isAlone && (only.isIdDrawn || only.idempotencyKey !== null))
      return [await this.#writeOne(tx, only)];
    const answers: WriteAnswer[] = [];
    for (let at = 0; at < tasks.length; at += ROWS_PER_STATEMENT) {
      answers.push(...(await this.#writeMany(tx, tasks.slice(at, at + ROWS_PER_STATEMENT))));
    }
    return answers;
  }

  /** All keys in one statement and in one order, before the first id is drawn. */
  async #lockKeys(tx: Tx, tasks: readonly NewTask[]): Promise<void> {
    const keys = new Set(tasks.flatMap(task => task.orderingKey ?? []));
    await this.#execute(tx, SQL.lockOrderingKeys, [JSON.stringify([...keys])]);
  }

  async #writeOne(tx: Tx, task: NewTask): Promise<WriteAnswer> {
    if (isPlain(task)) {
      const text = this.#notifyLimit.take() ? SQL.enqueuePlainNotify : SQL.enqueuePlain;
      await this.#insert(tx, text, plainValues(task));
      return { kind: 'new' };
    }
    const values = Object.values(rowTexts(task)) as (string | null)[];
    if (task.idempotencyKey === null) {
      const text = this.#notifyLimit.take() ? SQL.enqueueNotify : SQL.enqueue;
      await this.#insert(tx, text, values.slice(0, UNKEYED_VALUES));
      return { kind: 'new' };
    }
    const [row] = await this.#execute(tx, SQL.enqueueKeyed, [...values, this.#notify()]);
    if (row?.['written'] === '1') return { kind: 'new' };
    return await this.#judge(tx, task, row ?? {});
  }

  /** One id twice in a batch is one row: the later twin is judged by the first, here, where both are known. */
  async #writeMany(tx: Tx, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]> {
    const firsts = new Map<string, NewTask>();
    for (const task of tasks) {
      if (!firsts.has(task.envelope.id)) firsts.set(task.envelope.id, task);
    }
    const rows = [...firsts.values()];
    const answers = new Map<NewTask, WriteAnswer>();
    const refused = await this.#execute(tx, SQL.enqueueMany, [
      JSON.stringify(rows.map(rowTexts)),
      this.#notify(),
    ]);
    for (const row of refused) {
      const task = rows[Number(row['place']) - 1];
      if (task) answers.set(task, await this.#judge(tx, task, row));
    }
    return tasks.map(task => {
      const first = firsts.get(task.envelope.id) ?? task;
      if (first === task) return answers.get(task) ?? { kind: 'new' };
      const isSame = first.envelope.digest === task.envelope.digest;
      return isSame ? { kind: 'earlier', id: task.envelope.id } : { kind: 'id-mismatch' };
    });
  }

  #notify(): string | null {
    return this.#notifyLimit.take() ? 'yes' : null;
  }

  /** Why a row was not written: its key or its id is somebody else's, or its own from before. */
  async #judge(tx: Tx, task: NewTask, row: TextRow): Promise<WriteAnswer> {
    const { envelope, fingerprint } = task;
    const heldBy = row['held_by'] ?? null;
    if (heldBy !== null) {
      return row['held_fingerprint'] === fingerprint
        ? { kind: 'earlier', id: heldBy }
        : { kind: 'key-mismatch' };
    }
    const digest = row['earlier_digest'] ?? (await this.#readDigest(tx, envelope.id));
    // Known to nobody any more: it was sent, and is done and forgotten by now.
    return digest === null || digest === envelope.digest
      ? { kind: 'earlier', id: envelope.id }
      : { kind: 'id-mismatch' };
  }

  /** The row that was in the way may have been committed after our statement began: only the next one sees it. */
  async #readDigest(tx: Tx, id: string): Promise<string | null> {
    const [row] = await this.#execute(tx, SQL.readDigest, [id]);
    return row?.['digest'] ?? null;
  }

  #execute(tx: Tx, text: string, values: readonly (string | null)[]): Promise<readonly TextRow[]> {
    return translated(this.#adapter.execute(tx, text, values));
  }

  /** An INSERT of values reads nothing, so that its plan is good for ever. */
  async #insert(tx: Tx, text: string, values: readonly (string | null)[]): Promise<void> {
    const kept = this.#adapter.executeKept?.(tx, text, values);
    await translated(kept ?? this.#adapter.execute(tx, text, values));
  }
}

async function translated(rows: Promise<readonly TextRow[]>): Promise<readonly TextRow[]> {
  try {
    return await rows;
  } catch (error) {
    // The driver may not have known yet that the transaction had failed; the server did.
    if ((error as { readonly code?: unknown } | null)?.code === '25P02')
      throw failedTransaction(error);
    throw translatePgError(error);
  }
}

/** A name and an object, and nothing else: as most tasks are. */
function isPlain({ envelope, call, embed, ...rest }: NewTask): boolean {
  const { orderingKey, idempotencyKey, redacted } = rest;
  return (
    call.args === '[]' &&
    embed === EMBED &&
    envelope.etaMs === null &&
    envelope.expiresMs === null &&
    orderingKey === null &&
    idempotencyKey === null &&
    redacted === null
  );
}

/** In the order of the parameters of `enqueue-plain.sql`. */
const plainValues = ({ envelope, call }: NewTask): string[] => [
  envelope.id,
  envelope.name,
  envelope.queue,
  String(envelope.priority),
  base64(call.kwargs),
  base64(envelope.options),
  envelope.digest,
  String(envelope.version),
];

/** In the order of the parameters of `enqueue-keyed.sql`, under the names of `enqueue-many.sql`. */
function rowTexts(task: NewTask): RowTexts {
  const { envelope, call, redacted } = task;
  return {
    task_id: envelope.id,
    task_name: envelope.name,
    queue: envelope.queue,
    priority: String(envelope.priority),
    args: base64(call.args),
    kwargs: base64(call.kwargs),
    embed: base64(task.embed),
    options: base64(envelope.options),
    digest: envelope.digest,
    schema_version: String(rowVersionOf(task)),
    payload_version: String(envelope.version),
    eta_ms: envelope.etaMs === null ? null : String(envelope.etaMs),
    expires_ms: envelope.expiresMs === null ? null : String(envelope.expiresMs),
    ordering_key: task.orderingKey,
    parks_key: String(task.parksKey),
    redacted_args: redacted === null ? null : base64(redacted.args),
    redacted_kwargs: redacted === null ? null : base64(redacted.kwargs),
    idempotency_key: task.idempotencyKey,
    fingerprint: task.fingerprint,
    key_window_ms: KEY_WINDOW_MS,
  };
}

const base64 = (data: string | Uint8Array): string =>
  typeof data === 'string'
    ? Buffer.from(data).toString('base64')
    : Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
