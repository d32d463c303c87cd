import { type Admission, admissionRequestOf } from '../admission/admission.ts';
import type { LimitBook } from '../admission/limits.ts';
import { HOLD_MS, HeldPermit } from '../admission/permit.ts';
import type { Broker, PublishOutcome } from '../broker/broker.ts';
import { isOutlastError, isUnavailable, outlastError } from '../errors/error.ts';
import { type Clock, type Random, uuidv7 } from '../runtime/runtime.ts';
import type { Call, Permit, TaskCall } from '../task/define-task.ts';
import { ownManner } from '../ledger/destinations.ts';
import type { Envelope } from '../task/envelope.ts';
import { type Wildcard, starPattern } from '../task/glob.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import { soonAll } from '../task/names.ts';
import { ambientTrace } from '../telemetry/ambient.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { SendTrace, Traces } from '../telemetry/traces.ts';
import { ALONE, type ComposeDeps, composeTask } from './compose.ts';
import { type Composed, type SentCall, type SentRow, composeCall } from './compose-call.ts';
import { type NewTask, type OutboxWriter, type WriteAnswer, envelopeOf } from './outbox-writer.ts';
import type { SameDatabase } from './inside-transaction.ts';
import {
  type TransactionAdapter,
  type TransactionStatus,
  failedTransaction,
  notInTransaction,
} from './transaction-adapter.ts';

/** How long a push waits for the broker. */
const CONFIRM_MS = 10_000;
const LATE: PublishOutcome = {
  status: 'unavailable',
  error: `it was not confirmed within ${CONFIRM_MS} ms`,
};

export interface ProducerDeps<Tx> {
  readonly adapter: Pick<TransactionAdapter<Tx>, 'status' | 'askStatus' | 'transaction'>;
  /** Writes only inside of a transaction. */
  readonly writer: OutboxWriter<Tx>;
  /** For `strict: false`: also writes what is committed by itself. Null: that is refused. */
  readonly lenientWriter: OutboxWriter<Tx> | null;
  /** Null: the adapter is our own, or there is nothing to compare it with. */
  readonly sameDatabase: Pick<SameDatabase<Tx>, 'check'> | null;
  readonly broker: () => Promise<Broker>;
  readonly admission: () => Promise<Admission>;
  readonly book: LimitBook;
  readonly random: Random;
  readonly clock: Clock;
  readonly log: Logger;
  readonly strict: boolean;
  readonly excludeTasks: readonly string[];
  readonly maxPayloadBytes: number;
  readonly redact: Redact | null;
  readonly keyring: Keyring;
  readonly chordQueue: NonNullable<ComposeDeps['chordQueue']> | null;
  /** The ledger is in the database of this outbox, so a chord is open with the commit of its header. */
  readonly notesChords: boolean;
  /** The task running here, if there is one: it becomes the parent of what is sent. */
  readonly parent: () => ComposeDeps['parent'];
  /** What is captured of the place where a task is sent. Left out: nothing. */
  readonly surroundings?: () => Pick<ComposeDeps, 'headers' | 'context'>;
  /** Left out: nothing is traced. */
  readonly traces?: Traces;
}

/** The caller's side of a task's life: checks everything, then writes into the caller's transaction. */
export class Producer<Tx> {
  readonly #deps: ProducerDeps<Tx>;
  readonly #excluded: readonly Wildcard[];

  constructor(deps: ProducerDeps<Tx>) {
    this.#deps = deps;
    this.#excluded = deps.excludeTasks.map(starPattern);
  }

  /** All inputs are checked before the first row is written: an error leaves the transaction as it was. */
  send(tx: Tx, calls: readonly Call[]): Promise<readonly SentCall[]> {
    const { traces } = this.#deps;
    return traces === undefined
      ? this.#send(tx, calls, null)
      : traces.create(trace => this.#send(tx, calls, trace));
  }

  async #send(
    tx: Tx,
    calls: readonly Call[],
    trace: SendTrace | null,
  ): Promise<readonly SentCall[]> {
    const deps = this.#composeDeps(trace);
    const made = soonAll(calls, call => composeCall(call, deps));
    const composed = made instanceof Promise ? await made : made;
    const tasks = composed.length === 1 ? (composed[0] as Composed).rows : rowsOf(composed);
    trace?.wrote(tasks);
    const isMixed = this.#excluded.length > 0 && tasks.some(this.#isExcluded);
    const rows = await (isMixed ? this.#sendMixed(tx, tasks) : this.#write(tx, tasks));
    await this.#noteChords(tx, composed, rows);
    return sentCalls(composed, rows);
  }

  /** A chord that was sent before may be complete by now. */
  async #noteChords(
    tx: Tx,
    composed: readonly Composed[],
    rows: readonly SentRow[],
  ): Promise<void> {
    const { notesChords, writer } = this.#deps;
    if (!notesChords || composed.every(({ chord }) => chord === undefined)) return;
    let at = 0;
    const chords = composed.flatMap(({ chord, rows: { length } }) => {
      const own = rows.slice(at, (at += length));
      return chord !== undefined && own.some(({ isNew }) => isNew) ? [chord] : [];
    });
    if (chords.length > 0) await writer.noteChords?.(tx, chords);
  }

  readonly #isExcluded = ({ name }: NewTask): boolean =>
    this.#excluded.some(pattern => pattern.test(name));

  /** Some bypass the outbox: after the others, because they would outlive a refusal of those. */
  async #sendMixed(tx: Tx, tasks: readonly NewTask[]): Promise<readonly SentRow[]> {
    const direct = tasks.filter(this.#isExcluded);
    for (const task of direct) checkDirect(task);
    const written = tasks.filter(task => !this.#isExcluded(task));
    const sent = new Map<NewTask, SentRow>();
    const answers = await this.#write(tx, written);
    for (const [index, task] of written.entries()) sent.set(task, answers[index] as SentRow);
    for (const task of direct) sent.set(task, await this.#publish(task));
    return tasks.map(task => sent.get(task) as SentRow);
  }

  async #write(tx: Tx, tasks: readonly NewTask[]): Promise<readonly SentRow[]> {
    if (tasks.length === 0) return [];
    const asking = this.#deps.sameDatabase?.check(tx) ?? null;
    asking?.catch(() => undefined);
    const writer = this.#isOpen(tx) ? this.#deps.writer : await this.#writerFor(tx);
    const answers = await writer.write(tx, tasks, asking);
    return tasks.map((task, index) => readAnswer(task, answers[index] as WriteAnswer));
  }

  /** Publishes straight to the broker; returns the task's id. */
  push(call: TaskCall): Promise<string> {
    const { traces } = this.#deps;
    return traces === undefined
      ? this.#push(call, null)
      : traces.create(trace => this.#push(call, trace));
  }

  async #push(call: TaskCall, trace: SendTrace | null): Promise<string> {
    const task = await composeTask(call, ALONE, this.#composeDeps(trace));
    checkDirect(task);
    trace?.wrote([task]);
    const { admission } = call.task.contract;
    try {
      return (await this.#publish(task, admission?.onOutage)).id;
    } catch (error) {
      const isDeferred = admission?.onReject === 'defer';
      if (!isDeferred || !isOutlastError(error, 'ERR_ADMISSION_REJECTED')) throw error;
      // From the outbox it continues like a sent task, when its limit allows.
      await this.#deps.adapter.transaction(tx => this.#deps.writer.write(tx, [task]));
      return task.id;
    }
  }

  /** Takes capacity for one task, and keeps it for the send or push that uses the permit. */
  async admit(call: TaskCall): Promise<Permit> {
    const task = await composeTask(call, ALONE, this.#composeDeps(null));
    const admission = await this.#deps.admission();
    const request = { ...admissionRequestOf(envelopeOf(task)), permit: null };
    const reservations = await admission.enter(request, 'admit');
    const rates = admission.ratesOf(request.subject);
    const token = rates.length === 0 ? null : this.#deps.random.token();
    const permit = new HeldPermit({ task: task.name, token, rates, reservations });
    if (token === null) return permit;
    try {
      await admission.hold(token, HOLD_MS);
    } catch (error) {
      // The rate was taken. The caller needs the store's error more than the refund.
      await permit.cancel().catch(() => undefined);
      throw error;
    }
    return permit;
  }

  #composeDeps(trace: SendTrace | null): ComposeDeps {
    const { clock, maxPayloadBytes, redact, keyring, chordQueue, book } = this.#deps;
    const { parent, surroundings } = this.#deps;
    const nowMs = clock.now();
    const around = surroundings?.() ?? {};
    // Where no span is made for the send, its request's trace goes on.
    const made = trace?.headers ?? {};
    const traced = made['traceparent'] === undefined ? { ...made, ...ambientTrace() } : made;
    const isTraced = Object.keys(traced).length > 0;
    const context = isTraced ? { ...around.context, ...traced } : around.context;
    return {
      nowMs,
      newId: () => uuidv7(nowMs),
      maxPayloadBytes,
      redact,
      keyring,
      chordQueue,
      parent: parent(),
      ...around,
      ...(context === undefined ? {} : { context }),
      book,
    };
  }

  async #publish(task: NewTask, onOutage: 'throw' | 'admit' = 'throw'): Promise<SentRow> {
    const envelope = envelopeOf(task);
    const giveBack = await this.#enter(envelope, onOutage);
    const outcome = await this.#hand(envelope, giveBack);
    if (outcome.status === 'confirmed') return { id: task.id, isNew: true };
    if (outcome.status === 'unavailable') throw unanswered(task, outcome.error);
    throw outlastError('ERR_UNROUTABLE', {
      message: `the broker refused ${task.name}: ${outcome.error}`,
      hint: 'Check that the queue exists.',
      fields: { queue: task.queue },
    });
  }

  /** Takes the rates of a push, or throws; returns what gives them back. */
  async #enter(envelope: Envelope, onOutage: 'throw' | 'admit'): Promise<() => Promise<void>> {
    const request = admissionRequestOf(envelope);
    try {
      const admission = await this.#deps.admission();
      const reservations = await admission.enter(request, 'push');
      return async () => {
        reservations.spare(admission.ratesOf(request.subject));
        await reservations.refund().catch(() => undefined);
      };
    } catch (error) {
      if (onOutage === 'throw' || !isUnavailable(error)) throw error;
      const { id, name } = envelope;
      this.#deps.log.warn({ id, name, error }, 'its limits cannot be asked: it comes in unchecked');
      return () => Promise.resolve();
    }
  }

  /** A message that certainly did not arrive gives back what it took; one without an answer may have arrived. */
  async #hand(envelope: Envelope, giveBack: () => Promise<void>): Promise<PublishOutcome> {
    try {
      const broker = await this.#deps.broker();
      const publish = () => broker.publish([envelope], ownManner([envelope]));
      const { traces } = this.#deps;
      const publishing = traces === undefined ? publish() : traces.publish([envelope], publish);
      const outcome = await this.#inTime(publishing);
      if (outcome.status !== 'confirmed' && outcome !== LATE) await giveBack();
      return outcome;
    } catch (error) {
      await giveBack();
      throw error;
    }
  }

  /** A broker that has stopped accepting messages may not answer for hours. */
  #inTime(publishing: Promise<readonly PublishOutcome[]>): Promise<PublishOutcome> {
    return new Promise((resolve, reject) => {
      const cancel = this.#deps.clock.timer(CONFIRM_MS, () => resolve(LATE));
      publishing.then(([outcome]) => resolve(outcome as PublishOutcome), reject).finally(cancel);
    });
  }

  /** Nothing is written before it is certain that the caller's rollback would undo it. */
  async #writerFor(tx: Tx): Promise<OutboxWriter<Tx>> {
    const { writer, lenientWriter, strict, log } = this.#deps;
    const status = await this.#findStatus(tx);
    if (status === 'open') return writer;
    if (status === 'aborted') throw failedTransaction();
    if (status === 'pool' || strict || lenientWriter === null) throw notInTransaction(status);
    const message = 'this handle is not in a transaction: the task is committed by itself';
    log.warn({}, message);
    return lenientWriter;
  }

  /** A strict writer finds out by itself, in the statement that writes: an answer to a question is old when it arrives. */
  #isOpen(tx: Tx): boolean {
    const { adapter, strict } = this.#deps;
    const status = adapter.status(tx);
    if (strict) return status === 'open' || !isCertain(status);
    return adapter.askStatus === undefined && status === 'open';
  }

  async #findStatus(tx: Tx): Promise<Exclude<TransactionStatus, 'unknown'>> {
    const { adapter, writer, lenientWriter } = this.#deps;
    const known = adapter.status(tx);
    if (isCertain(known) && (known !== 'open' || adapter.askStatus === undefined)) return known;
    const asked = await adapter.askStatus?.(tx);
    if (asked !== undefined && isCertain(asked)) return asked;
    return (await (lenientWriter ?? writer).isInTransaction(tx)) ? 'open' : 'none';
  }
}

/** A third-party adapter may return anything. */
const isCertain = (status: TransactionStatus): status is Exclude<TransactionStatus, 'unknown'> =>
  ['open', 'none', 'aborted', 'pool'].includes(status);

const rowsOf = (composed: readonly Composed[]): readonly NewTask[] =>
  composed.flatMap(({ rows }) => rows);

/** Gives each call the results of its rows, which are in the order of the calls. */
function sentCalls(composed: readonly Composed[], rows: readonly SentRow[]): readonly SentCall[] {
  let at = 0;
  return composed.map(call => call.sent(rows.slice(at, (at += call.rows.length))));
}

function readAnswer(task: NewTask, answer: WriteAnswer): SentRow {
  const { id } = task;
  switch (answer.kind) {
    case 'new':
      return { id, isNew: true };
    case 'earlier':
      return { id: answer.id, isNew: false };
    case 'key-mismatch':
      throw mismatch(
        task.idempotencyKey ?? '',
        'the idempotency key belongs to a send with other input',
      );
    case 'id-mismatch':
      throw mismatch(id, 'the id belongs to a task with other input');
  }
}

function unanswered({ name }: NewTask, why: string): Error {
  return outlastError('ERR_BROKER_UNAVAILABLE', {
    message: `the broker has not confirmed ${name}: ${why}`,
    hint: 'It may have arrived. Push it again under the same `id`: what has arrived runs once.',
    fields: { scope: 'message' },
  });
}

function mismatch(key: string, message: string): Error {
  return outlastError('ERR_IDEMPOTENCY_MISMATCH', {
    message: `${message}: ${key}`,
    hint: 'Use another key or id, or send the same input.',
    fields: { key },
  });
}

const HINTS = {
  orderingKey:
    'Use `send`, in a transaction, with the task not in `excludeTasks`; or leave the option out.',
  idempotencyKey:
    'For one task per key, use `send`, in a transaction, with the task not in `excludeTasks`. For a push that may be repeated, give it an `id` made of the key; for effects that must be had once, make the task `idempotent`.',
} as const;

/** What only the outbox can keep must not be dropped silently. */
function checkDirect(task: NewTask): void {
  const option = (['orderingKey', 'idempotencyKey'] as const).find(key => task[key] !== null);
  if (option === undefined) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `\`${option}\` is kept by the outbox, and ${task.name} goes straight to the broker`,
    hint: HINTS[option],
    fields: { options: [option] },
  });
}
