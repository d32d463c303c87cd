import { createHash } from 'node:crypto';
import { outlastError } from '../../errors/error.ts';
import {
  type NewTask,
  type OutboxWriter,
  type WriteAnswer,
  inLockOrder,
  rowVersionOf,
} from '../../outbox/outbox-writer.ts';
import { withProof } from '../sql/proofs.ts';
import { type Executor, type TextRow, notInTransaction } from '../../outbox/transaction-adapter.ts';
import { systemRandom } from '../../runtime/runtime.ts';
import { isDuplicate, isUnmarked, translateMysqlError } from './mysql-errors.ts';
import { SQL } from './sql.generated.ts';
import { type Bound, type MysqlStatement, bind, bindProven, bindRows } from './statement.ts';

const ROWS_PER_STATEMENT = 1_000;
/** Half of what the strictest default of any server allows for one statement; a longer row goes alone. */
const BYTES_PER_STATEMENT = 500_000;
/** What a row adds to the text besides its values. */
const ROW_OVERHEAD_BYTES = 1_000;
/** A second send with the same key returns the first task's handle for this long. */
const KEY_WINDOW_MS = '86400000';

interface PlannedRow {
  readonly task: NewTask;
  readonly texts: Texts;
  readonly bytes: number;
}

/** Where it is written, and the proof that it is the transaction in which the send was called. Null: none is needed. */
interface Target<Tx> {
  readonly tx: Tx;
  readonly proof: string | null;
}

/** The current holder of an idempotency key: this very send, or an earlier one. */
interface KeyHolder {
  readonly id: string;
  readonly fingerprint: string;
  readonly isOurs: boolean;
}

/**
 * Writes tasks into the user's open transaction, through whatever library it belongs to. An error of a statement undoes
 * that statement only, so an existing id harms no transaction.
 */
export class MysqlOutboxWriter<Tx> implements OutboxWriter<Tx> {
  readonly #executor: Executor<Tx>;

  constructor(executor: Executor<Tx>) {
    this.#executor = executor;
  }

  async write(
    tx: Tx,
    tasks: readonly NewTask[],
    ready: Promise<void> | null = null,
  ): Promise<readonly WriteAnswer[]> {
    const [only] = tasks;
    if (!only) return [];
    const { executeInside } = this.#executor;
    if (executeInside && tasks.length === 1 && ready === null && isOneStatement(only))
      return [await this.#writeAtOnce(tx, only, executeInside)];
    return await this.#inside(tx, async target => {
      await ready;
      return await this.#write(target, tasks);
    });
  }

  /** The path of most tasks. Nothing is awaited before the server has it, so it stands before what the caller runs next. */
  async #writeAtOnce(
    tx: Tx,
    task: NewTask,
    executeInside: ExecuteInside<Tx>,
  ): Promise<WriteAnswer> {
    const { text, values } = bindRows(SQL.enqueue, [rowTexts(task)]);
    try {
      if ((await executeInside(tx, text, values)) === null) throw notInTransaction('none');
      return { kind: 'new' };
    } catch (error) {
      if (!isDuplicate(error)) throw translateMysqlError(error);
      const digest = (await this.#readDigests(tx, [task.id])).get(task.id);
      if (digest === undefined) throw translateMysqlError(error);
      return judgeId(task, digest);
    }
  }

  /**
   * What is written is selected from a row that is proven to be part of the transaction. The savepoint was there before the
   * row and is there after it, so the row was written in between, in one transaction.
   */
  async #prove(tx: Tx): Promise<string> {
    const proof = sha256(systemRandom.token());
    const marking = this.#execute(tx, bind<string>(SQL.transactionMark, []));
    // A driver keeps the order of what it is given. A library may not.
    if (!this.#executor.executeInside) await marking;
    const writing = this.#execute(tx, bind<string>(SQL.proofWrite, [proof]));
    if (!this.#executor.executeInside) await writing;
    const checking = this.#execute(tx, bind<string>(SQL.transactionCheck, []));
    checking.catch(() => undefined);
    await Promise.all([marking, writing]);
    try {
      await checking;
    } catch (error) {
      if (!isUnmarked(error)) throw error;
      // If it was committed by itself. Otherwise it is gone, or is pruned with the keys.
      await this.#remove(tx, proof).catch(() => undefined);
      throw notInTransaction('none');
    }
    return proof;
  }

  #remove(tx: Tx, proof: string): Promise<unknown> {
    return this.#execute(tx, bind<string>(SQL.proofRemove, [proof]));
  }

  #inside<T>(tx: Tx, write: (target: Target<Tx>) => Promise<T>): Promise<T> {
    if (this.#executor.isCertain(tx)) return write({ tx, proof: null });
    return withProof(
      tx,
      () => this.#prove(tx),
      proof => write({ tx, proof }),
      proof => this.#remove(tx, proof),
    );
  }

  async #write(target: Target<Tx>, tasks: readonly NewTask[]): Promise<readonly WriteAnswer[]> {
    const { tx } = target;
    const firsts = firstOfEach(inLockOrder(tasks), task => task.id);
    const rows = [...firsts.values()].map(planRow);
    await this.#refuseTooLarge(tx, rows);
    await this.#lockOrder(tx, rows);
    const answers = await this.#takeKeys(target, rows);
    const wanted = rows.filter(({ task }) => !answers.has(task));
    for (const part of inStatements(wanted)) await this.#insert(target, part, answers);
    return tasks.map(task => {
      const first = firsts.get(task.id) ?? task;
      if (first === task) return answers.get(task) ?? { kind: 'new' };
      return judgeId(task, first.digest);
    });
  }

  async isInTransaction(tx: Tx): Promise<boolean> {
    try {
      await this.#execute(tx, bind<string>(SQL.transactionMark, []));
      await this.#execute(tx, bind<string>(SQL.transactionCheck, []));
      return true;
    } catch (error) {
      if (isUnmarked(error)) return false;
      throw error;
    }
  }

  /** A statement that is too large for the server ends the connection: a longer row is written only if the server allows it. */
  async #refuseTooLarge(tx: Tx, rows: readonly PlannedRow[]): Promise<void> {
    const longest = rows.reduce((longer, row) => (row.bytes > longer.bytes ? row : longer));
    if (longest.bytes <= BYTES_PER_STATEMENT) return;
    const [limit] = await this.#execute(tx, bind<string>(SQL.packetLimit, []));
    const maxBytes = Number(limit?.['bytes']);
    if (longest.bytes <= maxBytes) return;
    throw outlastError('ERR_PAYLOAD_TOO_LARGE', {
      message: `a ${longest.task.name} makes a statement of ${longest.bytes} bytes, and the server takes ${maxBytes}`,
      hint: 'Store the data elsewhere and send a reference to it, or raise max_allowed_packet of the server.',
      fields: { bytes: longest.bytes, maxBytes },
    });
  }

  /**
   * Held until the transaction ends: a transaction that sends with the same key next gets a higher id and commits later.
   * Several chosen ids are locked the same way. Sorting them is not enough here: one existing id undoes the whole
   * statement, and sessions that waited for its other rows keep locks on the gaps in which both would insert next.
   */
  async #lockOrder(tx: Tx, rows: readonly PlannedRow[]): Promise<void> {
    const tasks = rows.map(({ task }) => task);
    const ids = tasks.filter(task => !task.isIdDrawn).map(({ id }) => id);
    const keys = tasks.flatMap(task => task.orderingKey ?? []);
    if (ids.length > 1) keys.push(...ids);
    const slots = [...new Set(keys.map(slotOf))].toSorted((a, b) => a - b);
    for (let at = 0; at < slots.length; at += ROWS_PER_STATEMENT) {
      const part = slots.slice(at, at + ROWS_PER_STATEMENT).map(String);
      const locked = await this.#execute(tx, bind<string>(SQL.lockOrderingKeys, [part]));
      // Without the row nothing is locked, and the order would not be guaranteed.
      if (locked.length < part.length) throw slotsMissing();
    }
  }

  /** Answers for the tasks whose key belongs to another send; they are not written. */
  async #takeKeys(
    target: Target<Tx>,
    rows: readonly PlannedRow[],
  ): Promise<Map<NewTask, WriteAnswer>> {
    const keyed = rows.flatMap(({ task }) =>
      task.idempotencyKey === null ? [] : [{ task, hash: sha256(task.idempotencyKey) }],
    );
    const answers = new Map<NewTask, WriteAnswer>();
    const firsts = [...firstOfEach(keyed, ({ hash }) => hash).values()];
    const holders = await this.#holders(target, firsts);
    for (const { task, hash } of keyed) {
      const holder = holders.get(hash);
      if (!holder || (holder.isOurs && holder.id === task.id)) continue;
      const isSame = holder.fingerprint === task.fingerprint;
      answers.set(task, isSame ? { kind: 'earlier', id: holder.id } : { kind: 'key-mismatch' });
    }
    return answers;
  }

  /** In the order of the keys, so that two transactions with the same keys do not deadlock. */
  async #holders(
    target: Target<Tx>,
    wanted: readonly { readonly task: NewTask; readonly hash: string }[],
  ): Promise<ReadonlyMap<string, KeyHolder>> {
    const holders = new Map<string, KeyHolder>();
    const token = systemRandom.token();
    const sorted = wanted.toSorted((a, b) => (a.hash < b.hash ? -1 : 1));
    for (let at = 0; at < sorted.length; at += ROWS_PER_STATEMENT) {
      const takes = new Map(
        sorted
          .slice(at, at + ROWS_PER_STATEMENT)
          .map(({ task: { id, fingerprint }, hash }) => [
            hash,
            [hash, id, fingerprint, token, KEY_WINDOW_MS] as const,
          ]),
      );
      await this.#change(target, SQL.takeSendKey, [...takes.values()]);
      const held = await this.#execute(
        target.tx,
        bind<string>(SQL.readSendKeys, [[...takes.keys()]]),
      );
      for (const row of held) {
        const hash = row['key_hash'] ?? '';
        const take = takes.get(hash);
        if (!take) continue;
        const isFree = row['is_free'] === 'yes';
        if (isFree) await this.#takeOver(target, take);
        holders.set(hash, isFree ? ours(take) : readHolder(row, token));
      }
    }
    return holders;
  }

  /** One statement; repeated without the rows whose id exists. */
  async #insert(
    target: Target<Tx>,
    rows: readonly PlannedRow[],
    answers: Map<NewTask, WriteAnswer>,
  ): Promise<void> {
    let left = rows;
    while (left.length > 0) {
      try {
        const inserted = left.map(({ texts }) => texts);
        await this.#change(target, SQL.enqueue, inserted);
        return;
      } catch (error) {
        if (!isDuplicate(error)) throw error;
        const ids = left.map(({ task }) => task.id);
        const digests = await this.#readDigests(target.tx, ids);
        if (digests.size === 0) throw error;
        for (const { task } of left) {
          const digest = digests.get(task.id);
          if (digest !== undefined) answers.set(task, judgeId(task, digest));
        }
        left = left.filter(({ task }) => !answers.has(task));
      }
    }
  }

  async #readDigests(tx: Tx, ids: string[]): Promise<ReadonlyMap<string, string | null>> {
    const known = await this.#execute(tx, bind<string>(SQL.readDigests, [ids]));
    return new Map(known.map(row => [row['id'] ?? '', row['digest'] ?? null]));
  }

  async #execute(tx: Tx, { text, values }: Bound<string | null>): Promise<readonly TextRow[]> {
    try {
      return await this.#executor.execute(tx, text, values);
    } catch (error) {
      throw translateMysqlError(error);
    }
  }

  async #change({ tx, proof }: Target<Tx>, sql: MysqlStatement, rows: readonly Texts[]) {
    await this.#execute(tx, proof === null ? bindRows(sql, rows) : bindProven(sql, rows, proof));
  }

  async #takeOver({ tx, proof }: Target<Tx>, take: readonly string[]): Promise<void> {
    const bound =
      proof === null
        ? bind<string>(SQL.takeOverSendKey, take)
        : bind<string>(SQL.takeOverSendKeyProven, [...take, proof]);
    await this.#execute(tx, bound);
  }
}

type ExecuteInside<Tx> = NonNullable<Executor<Tx>['executeInside']>;

/** Nothing has to be locked, asked or written before its row. */
const isOneStatement = (task: NewTask): boolean =>
  task.orderingKey === null &&
  task.idempotencyKey === null &&
  planRow(task).bytes <= BYTES_PER_STATEMENT;

function planRow(task: NewTask): PlannedRow {
  const texts = rowTexts(task);
  const length = texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
  return { task, texts, bytes: length + ROW_OVERHEAD_BYTES };
}

/** Parts of a thousand rows, or of as many as fit into one statement. */
function inStatements(rows: readonly PlannedRow[]): readonly (readonly PlannedRow[])[] {
  const parts: PlannedRow[][] = [];
  let bytes = Infinity;
  for (const row of rows) {
    bytes += row.bytes;
    if (bytes > BYTES_PER_STATEMENT || parts.at(-1)?.length === ROWS_PER_STATEMENT) {
      parts.push([]);
      bytes = row.bytes;
    }
    parts.at(-1)?.push(row);
  }
  return parts;
}

function firstOfEach<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, T> {
  const firsts = new Map<string, T>();
  for (const item of items) {
    const key = keyOf(item);
    if (!firsts.has(key)) firsts.set(key, item);
  }
  return firsts;
}

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex');

/** Which of the 65,536 rows of `outlast_ordering_key` a key maps to. It must be the same in every version. */
const slotOf = (key: string): number => Number.parseInt(sha256(key).slice(0, 4), 16);

function ours([, id, fingerprint]: readonly [string, string, string, ...string[]]): KeyHolder {
  return { id, fingerprint, isOurs: true };
}

function readHolder(row: TextRow, token: string): KeyHolder {
  return {
    id: row['held_by'] ?? '',
    fingerprint: row['fingerprint'] ?? '',
    isOurs: row['token'] === token,
  };
}

function judgeId(task: NewTask, digest: string | null): WriteAnswer {
  return digest === task.digest ? { kind: 'earlier', id: task.id } : { kind: 'id-mismatch' };
}

function slotsMissing(): Error {
  return outlastError('ERR_SCHEMA_MISSING', {
    message: 'outlast_ordering_key lacks rows, so nothing keeps the order of sends',
    hint: 'Restore the rows 0 to 65535 that the migration 0001-tables inserts.',
    fields: {},
  });
}

export type Texts = readonly (string | null)[];

/** The parameters of `enqueue.sql`, in its order. */
function rowTexts(task: NewTask): Texts {
  const { call, redacted } = task;
  return [
    task.id,
    task.name,
    task.queue,
    String(task.priority),
    base64(call.args),
    base64(call.kwargs),
    base64(task.embed),
    base64(task.settings),
    task.digest,
    String(rowVersionOf(task)),
    String(task.version),
    task.etaMs === null ? null : String(task.etaMs),
    task.expiresMs === null ? null : String(task.expiresMs),
    task.idempotencyKey === null ? null : base64(task.idempotencyKey),
    task.orderingKey === null ? null : base64(task.orderingKey),
    task.parksKey ? '1' : '0',
    redacted === null ? null : base64(redacted.args),
    redacted === null ? null : base64(redacted.kwargs),
  ];
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
