import { newcomerOf, type Admission } from '../admission/admission.ts';
import type { LimitBook } from '../admission/limits.ts';
import { HeldPermit, HOLD_MS } from '../admission/permit.ts';
import type { Broker, PublishOutcome } from '../broker/broker.ts';
import { isOutlastError, outlastError } from '../errors/error.ts';
import type { Clock } from '../runtime/clock.ts';
import { uuidv7 } from '../runtime/random.ts';
import type { Random } from '../runtime/random.ts';
import type { Call, Permit, TaskCall } from '../task/define-task.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import { soonAll } from '../task/soon.ts';
import type { Logger } from '../telemetry/logger.ts';
import { ALONE, composeTask, type ComposeDeps } from './compose.ts';
import { composeCall, type Composed, type SentCall, type SentRow } from './compose-call.ts';
import { envelopeOf, type NewTask, type OutboxWriter, type WriteAnswer } from './outbox-writer.ts';
import { failedTransaction, type TransactionAdapter } from './transaction-adapter.ts';

/** How long a push waits for the broker. */
const CONFIRM_MS = 10_000;
const LATE: PublishOutcome = {
  status: 'unavailable',
  error: `it was not confirmed within ${CONFIRM_MS} ms`,
};

export interface ProducerDeps<Tx> {
  readonly adapter: Pick<TransactionAdapter<Tx>, 'status' | 'transaction'>;
  readonly writer: OutboxWriter<Tx>;
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
  /** The ledger is in the database of this outbox, so that a chord is open with the commit of its header. */
  readonly notesChords: boolean;
  /** The task that is running here, if one is: it becomes the parent of what is sent. */
  readonly parent: () => ComposeDeps['parent'];
}

/** The caller's end of a task's life: checks everything, then writes into the caller's transaction. */
export class Producer<Tx> {
  readonly #deps: ProducerDeps<Tx>;
  readonly #excluded: readonly RegExp[];

  constructor(deps: ProducerDeps<Tx>) {
    this.#deps = deps;
    this.#excluded = deps.excludeTasks.map(toPattern);
  }

  /** All inputs are checked before the first row is written: an error leaves the transaction as it was. */
  async send(tx: Tx, calls: readonly Call[]): Promise<readonly SentCall[]> {
    const deps = this.#composeDeps();
    const made = soonAll(calls, call => composeCall(call, deps));
    const composed = made instanceof Promise ? await made : made;
    const tasks = composed.length === 1 ? (composed[0] as Composed).rows : rowsOf(composed);
    const isMixed = this.#excluded.length > 0 && tasks.some(this.#isExcluded);
    const rows = await (isMixed ? this.#sendMixed(tx, tasks) : this.#write(tx, tasks));
    await this.#noteChords(tx, composed, rows);
    return sentCalls(composed, rows);
  }

  /** One that was sent before may be complete by now. */
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

  /** Some go past the outbox: after the others, whose refusal they would outlive. */
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
    if (tasks.length > 0) this.#checkTransaction(tx);
    const answers = await this.#deps.writer.write(tx, tasks);
    return tasks.map((task, index) => readAnswer(task, answers[index] as WriteAnswer));
  }

  /** Straight to the broker; the task's id. */
  async push(call: TaskCall): Promise<string> {
    const task = await composeTask(call, ALONE, this.#composeDeps());
    checkDirect(task);
    try {
      return (await this.#publish(task)).id;
    } catch (error) {
      const isDeferred = call.task.contract.admission?.onReject === 'defer';
      if (!isDeferred || !isOutlastError(error, 'ERR_ADMISSION_REJECTED')) throw error;
      // From the outbox it goes on as a sent task does, whenever there is room.
      await this.#deps.adapter.transaction(tx => this.#deps.writer.write(tx, [task]));
      return task.id;
    }
  }

  /** Takes room for one task, and keeps it for whoever sends or pushes that with the permit. */
  async admit(call: TaskCall): Promise<Permit> {
    const task = await composeTask(call, ALONE, this.#composeDeps());
    const admission = await this.#deps.admission();
    const newcomer = { ...newcomerOf(envelopeOf(task)), permit: null };
    const takings = await admission.enter(newcomer, 'admit');
    const rates = admission.ratesOf(newcomer.subject);
    const token = rates.length === 0 ? null : this.#deps.random.token();
    const permit = new HeldPermit({ task: task.name, token, rates, takings });
    if (token === null) return permit;
    try {
      await admission.hold(token, HOLD_MS);
    } catch (error) {
      // The rate was taken; that the store is away now is worth more to the caller than that it stays taken.
      await permit.cancel().catch(() => undefined);
      throw error;
    }
    return permit;
  }

  #composeDeps(): ComposeDeps {
    const { clock, maxPayloadBytes, redact, keyring, chordQueue, parent, book } = this.#deps;
    const nowMs = clock.now();
    return {
      nowMs,
      newId: () => uuidv7(nowMs),
      maxPayloadBytes,
      redact,
      keyring,
      chordQueue,
      parent: parent(),
      book,
    };
  }

  async #publish(task: NewTask): Promise<SentRow> {
    const admission = await this.#deps.admission();
    const envelope = envelopeOf(task);
    const newcomer = newcomerOf(envelope);
    const takings = await admission.enter(newcomer, 'push');
    const giveBack = async (): Promise<void> => {
      takings.spare(admission.ratesOf(newcomer.subject));
      await takings.refund().catch(() => undefined);
    };
    const outcome = await this.#hand(envelope, giveBack);
    if (outcome.status === 'confirmed') return { id: task.id, isNew: true };
    if (outcome.status === 'unavailable') throw unanswered(task, outcome.error);
    throw outlastError('ERR_UNROUTABLE', {
      message: `the broker refused ${task.name}: ${outcome.error}`,
      hint: 'Check that the queue exists.',
      fields: { queue: task.queue },
    });
  }

  /** A message that certainly did not arrive gives back what it took; one that nobody answered for may have arrived. */
  async #hand(envelope: Envelope, giveBack: () => Promise<void>): Promise<PublishOutcome> {
    try {
      const broker = await this.#deps.broker();
      const outcome = await this.#inTime(broker.publish([envelope]));
      if (outcome.status !== 'confirmed' && outcome !== LATE) await giveBack();
      return outcome;
    } catch (error) {
      await giveBack();
      throw error;
    }
  }

  /** A broker that has stopped taking messages may not answer for hours. */
  #inTime(publishing: Promise<readonly PublishOutcome[]>): Promise<PublishOutcome> {
    return new Promise((resolve, reject) => {
      const cancel = this.#deps.clock.timer(CONFIRM_MS, () => resolve(LATE));
      publishing.then(([outcome]) => resolve(outcome as PublishOutcome), reject).finally(cancel);
    });
  }

  #checkTransaction(tx: Tx): void {
    const status = this.#deps.adapter.status(tx);
    if (status === 'open' || status === 'unknown') return;
    if (status === 'aborted') throw failedTransaction();
    const message = 'this handle is not in a transaction';
    if (!this.#deps.strict) {
      this.#deps.log.warn({}, `${message}: the task is committed by itself`);
      return;
    }
    throw outlastError('ERR_NOT_IN_TRANSACTION', {
      message,
      hint: 'Run BEGIN on it first, or use outlast.transaction(async tx => …); set strict: false to be warned instead.',
      fields: {},
    });
  }
}

const rowsOf = (composed: readonly Composed[]): readonly NewTask[] =>
  composed.flatMap(({ rows }) => rows);

/** Each call is told what became of its rows, which stand in the order of the calls. */
function sentCalls(composed: readonly Composed[], rows: readonly SentRow[]): readonly SentCall[] {
  let at = 0;
  return composed.map(call => call.sent(rows.slice(at, (at += call.rows.length))));
}

/** `metrics.*` as a pattern; every other character means itself. */
function toPattern(glob: string): RegExp {
  const escaped = glob
    .split('*')
    .map(part => part.replaceAll(/[\\^$.|?+()[\]{}]/g, String.raw`\$&`));
  return new RegExp(`^${escaped.join('.*')}$`);
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

/** What only the outbox can keep must not be dropped in silence. */
function checkDirect(task: NewTask): void {
  const option = (['orderingKey', 'idempotencyKey'] as const).find(key => task[key] !== null);
  if (option === undefined) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: `\`${option}\` is kept by the outbox, and ${task.name} goes straight to the broker`,
    hint: 'Use `send` and take the task out of `excludeTasks`, or leave the option out.',
    fields: { options: [option] },
  });
}
