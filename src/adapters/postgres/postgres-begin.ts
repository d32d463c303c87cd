import type {
  BeginReply,
  BeginRequest,
  BegunTask,
  MessageAnswer,
  RunRef,
  TaskRef,
} from '../../ledger/ledger.ts';
import { BATCH_BYTES, BEGIN_COUNT, bytesOfEnvelope } from '../../ledger/batch-limits.ts';
import type { FaultPoint } from '../../runtime/runtime.ts';
import { type SliceLimits, slicesWithin } from '../../runtime/wakeable.ts';
import type { Envelope } from '../../task/envelope.ts';
import { type BeginRefusal, beginSettled, refusalOf } from './own-generation.ts';
import { withIsolation } from './postgres-isolate.ts';
import { runnableColumns, setAside } from './postgres-refusals.ts';
import { readEnvelope, readNumber, taskColumns } from './postgres-rows.ts';
import type { SqlDatabase, SqlRow } from '../sql/sql-database.ts';
import { SQL } from './sql.generated.ts';

/** Hands out tasks: those of messages first, then due ones of the table, then suspects and those that were set aside. */
export class PostgresBegin {
  readonly #db: SqlDatabase;
  readonly #faultPoint: FaultPoint;
  /** The last `begin` saw tasks that were set aside: the next one looks there first, or a busy worker never would. */
  #isAside = false;
  /** The same for suspects. */
  #hasSuspects = false;
  readonly #floors = new DueFloors(() => performance.now());

  constructor(db: SqlDatabase, faultPoint: FaultPoint) {
    this.#db = db;
    this.#faultPoint = faultPoint;
  }

  async begin(request: BeginRequest): Promise<BeginReply> {
    let asked = request;
    return await withIsolation(this.#db, request, () =>
      beginSettled(this.#db, () => {
        const now = asked;
        // A repeat must find what an earlier statement has handed out.
        asked = { ...request, isFirst: false };
        return this.#begin(now);
      }),
    );
  }

  /** Tasks come back under the time at which they were due. */
  lookBack(): void {
    this.#floors.reset();
  }

  /** These tasks are due again since then. */
  lookBackFor(woken: readonly SqlRow[]): void {
    this.#floors.lower(woken.map(readDue));
  }

  async #begin(request: BeginRequest): Promise<BeginReply | BeginRefusal> {
    const ofMessages = await this.#beginAllMessages(request);
    if ('status' in ofMessages) return ofMessages;
    const { queues, limit } = request;
    if (limit === 0 && ofMessages.begun.length > 0)
      return { status: 'open', ...ofMessages, expired: [], refused: [], nextDueMs: null };
    const rows: SqlRow[] = [];
    const mostSuspects = request.suspects - suspectsAmong(ofMessages.begun);
    const suspects = (): number => Math.max(0, mostSuspects - suspectsOf(rows));
    // A repeat must first find what it was given before.
    if (request.isFirst === true) {
      if (this.#isAside)
        rows.push(...(await this.#beginAside(request, Math.ceil(limit / 2), suspects())));
      if (this.#hasSuspects)
        rows.push(...(await this.#beginSuspects(request, limit - rows.length, suspects())));
    }
    const others = [...ofMessages.ids, ...rows.map(row => row['id'] as string)];
    const due = await this.#beginDue(request, Math.max(0, limit - rows.length), others);
    const refusal = refusalOf(due);
    if (refusal !== null) return refusal;
    this.#isAside = due[0]?.['aside'] === true;
    this.#hasSuspects = due[0]?.['suspects'] === true;
    rows.push(...due.filter(row => row['id'] !== null));
    if (this.#hasSuspects)
      rows.push(...(await this.#beginSuspects(request, limit - rows.length, suspects())));
    if (this.#isAside)
      rows.push(...(await this.#beginAside(request, limit - rows.length, suspects())));
    const inState = (state: string): readonly SqlRow[] =>
      rows.filter(row => row['state'] === state);
    const begun = [...ofMessages.begun, ...inState('running').map(readBegun)];
    const refused = inState('refused').map(readRef);
    // There may be many more of them in front of the tasks that this worker can run.
    if (refused.length > 0) await setAside(this.#db, request);
    const nextDueMs = (): Promise<number | null> => this.#nextDueMs(queues, suspects());
    return {
      status: 'open',
      begun,
      answers: ofMessages.answers,
      expired: inState('cancelled').map(readRef),
      refused,
      nextDueMs: begun.length > 0 ? null : refused.length > 0 ? 0 : await nextDueMs(),
    };
  }

  async #beginDue(
    { worker, run, queues, crashBudgets, runnable, isFirst = false }: BeginRequest,
    limit: number,
    others: readonly string[],
  ): Promise<readonly SqlRow[]> {
    const asked = [
      worker,
      run,
      queues,
      limit,
      JSON.stringify(crashBudgets),
      others,
      runnable === undefined ? null : JSON.stringify(runnable),
      BATCH_BYTES,
    ];
    return await this.#floors.look(
      queues,
      floors => this.#db.query(SQL.beginDue, [...asked, floors, isFirst]),
      rows => rows.filter(row => row['id'] !== null).map(readDue),
    );
  }

  /** Tasks that may have killed their workers: seldom any. */
  async #beginSuspects(
    { worker, run, queues, crashBudgets, runnable }: BeginRequest,
    limit: number,
    suspects: number,
  ): Promise<readonly SqlRow[]> {
    if (limit <= 0) return [];
    return await this.#db.query(SQL.beginSuspects, [
      worker,
      run,
      queues,
      Math.min(limit, suspects),
      JSON.stringify(crashBudgets),
      runnable === undefined ? null : JSON.stringify(runnable),
    ]);
  }

  /** Tasks that other workers have set aside: seldom any. */
  async #beginAside(
    request: BeginRequest,
    limit: number,
    suspects: number,
  ): Promise<readonly SqlRow[]> {
    const able = runnableColumns(request);
    if (able === null || limit <= 0) return [];
    const { worker, run, queues, crashBudgets } = request;
    const asked = [worker, run, queues, limit, JSON.stringify(crashBudgets), ...able];
    return await this.#db.query(SQL.beginAside, [...asked, BATCH_BYTES, suspects]);
  }

  /** In one statement, unless they are too many or too large for one. */
  async #beginAllMessages(request: BeginRequest): Promise<MessagesBegun | BeginRefusal> {
    let all = NO_MESSAGES;
    for (const messages of slicesWithin(request.messages, MESSAGE_LIMITS)) {
      const suspects = request.suspects - suspectsAmong(all.begun);
      const begun = await this.#beginMessages({ ...request, suspects, messages });
      if ('status' in begun) return begun;
      all = all === NO_MESSAGES ? begun : joined(all, begun);
    }
    return all;
  }

  async #beginMessages(request: BeginRequest): Promise<MessagesBegun | BeginRefusal> {
    const { worker, run, messages } = request;
    const budgets = JSON.stringify(request.crashBudgets);
    const columns = taskColumns(messages);
    const put = await this.#db.query(SQL.beginNew, [worker, run, budgets, ...columns]);
    if (put.length === messages.length) return allNew(messages, run, put);
    if (put.length > 0) await this.#faultPoint('ledger.begun-in-part');
    // It finds the rows just inserted as begun by this run, as it would after a lost reply.
    const asked = [worker, run, budgets, request.suspects, ...columns];
    let rows = await this.#db.query(SQL.beginMessages, asked);
    const refusal = refusalOf(rows);
    if (refusal !== null) return refusal;
    if (rows.some(row => row['answer'] === null)) {
      const ids = messages.map(message => message.id);
      const digests = messages.map(message => message.digest);
      rows = await this.#db.query(SQL.beginAnswers, [worker, run, ids, digests]);
    }
    // The same message may come twice in one batch: one run answers both.
    const byId = new Map<string, BegunTask>();
    for (const [place, row] of rows.entries()) {
      const envelope = messages[place] as Envelope;
      if (row['answer'] === 'begun') byId.set(envelope.id, readRunning(row, envelope, run));
    }
    return {
      begun: [...byId.values()],
      ids: new Set(byId.keys()),
      answers: rows.map(row => row['answer'] as MessageAnswer),
    };
  }

  async #nextDueMs(queues: readonly string[], suspects: number): Promise<number | null> {
    const rows = await this.#db.query(SQL.ledgerNextDue, [queues, suspects]);
    return readNumber(rows[0]?.['wait_ms'] ?? null);
  }
}

const suspectsAmong = (begun: readonly BegunTask[]): number =>
  begun.filter(task => task.isSuspect).length;

const readDue = (row: SqlRow): DueTask => ({
  queue: row['queue'] as string,
  priority: row['priority'] as number,
  dueMs: Number(row['due_ms'] ?? -Infinity),
});

/** Of the tasks handed out: how many count against the worker's limit of suspects. */
const suspectsOf = (rows: readonly SqlRow[]): number =>
  rows.filter(row => row['state'] === 'running' && row['suspect'] === true).length;

interface MessagesBegun {
  readonly begun: readonly BegunTask[];
  readonly ids: ReadonlySet<string>;
  readonly answers: readonly MessageAnswer[];
}

function allNew(
  messages: readonly Envelope[],
  run: string,
  [put]: readonly SqlRow[],
): MessagesBegun {
  const epoch = Number(put?.['epoch']);
  const nothing = { failures: 0, crashes: 0, isSuspect: false, checkpoint: null, checkpointSeq: 0 };
  return {
    begun: messages.map(envelope => ({ id: envelope.id, epoch, run, envelope, ...nothing })),
    ids: new Set(messages.map(({ id }) => id)),
    answers: messages.map(() => 'begun'),
  };
}

/** Joins the results of two statements of one `begin`. */
function joined(one: MessagesBegun, other: MessagesBegun): MessagesBegun {
  const begun = new Map([...one.begun, ...other.begun].map(task => [task.id, task]));
  return {
    begun: [...begun.values()],
    ids: new Set(begun.keys()),
    answers: [...one.answers, ...other.answers],
  };
}

/** Messages of one statement. */
const MESSAGE_LIMITS: SliceLimits<Envelope> = {
  count: BEGIN_COUNT,
  bytes: BATCH_BYTES,
  bytesOf: bytesOfEnvelope,
};

const NO_MESSAGES: MessagesBegun = { begun: [], ids: new Set(), answers: [] };

export function readRef(row: SqlRow): TaskRef {
  return { id: row['id'] as string, name: row['name'] as string, queue: row['queue'] as string };
}

export function readRun(row: SqlRow): RunRef {
  return { id: row['id'] as string, epoch: Number(row['epoch']), run: row['run'] as string };
}

function readBegun(row: SqlRow): BegunTask {
  return readRunning(row, readEnvelope(row), row['run'] as string);
}

/** The bytes of a message are here: they have the digest of those on record. */
function readRunning(row: SqlRow, envelope: Envelope, run: string): BegunTask {
  return {
    id: envelope.id,
    epoch: Number(row['epoch']),
    run,
    envelope,
    failures: row['failures'] as number,
    crashes: row['crashes'] as number,
    isSuspect: row['suspect'] as boolean,
    checkpoint: row['checkpoint'] as Uint8Array | null,
    checkpointSeq: Number(row['checkpoint_seq']),
  };
}

/** Overlapping transactions commit in another order than they began; most are over within this time. */
const OVERLAP_MS = 5_000;
const LEAST_PAUSE_MS = 1_000;
/** Look-ups from the beginning may take this share of the time at most. */
const SHARE = 10;
const PRIORITIES = 10;

/** A task that was handed out: where it stood. */
export interface DueTask {
  readonly queue: string;
  readonly priority: number;
  readonly dueMs: number;
}

/**
 * Where the look-ups of a `begin` start, for each queue and priority. Tasks that were begun leave dead entries at the front
 * of the index, and while a foreign transaction holds an old snapshot nothing can clean them up: every look-up would walk
 * over all of them, and the worker would slow down with every task it begins. So most look-ups start where the last task
 * was found, less a margin. Tasks before that (of a long transaction, given back, or brought back from a dead worker) are
 * found by look-ups from the beginning, which are made whenever a look finds nothing, and now and then.
 */
export class DueFloors {
  readonly #monotonic: () => number;
  readonly #floors = new Map<string, number>();
  /** Counts what came back: a look that began before must not raise the floors above it. */
  #returns = 0;
  #fullAt = -Infinity;
  #fullTookMs = 0;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** The answer of `look`; it gets a floor for each queue and priority, in order, null for the beginning. */
  async look<R>(
    queues: readonly string[],
    look: (floors: readonly (number | null)[]) => Promise<R>,
    found: (reply: R) => readonly DueTask[],
  ): Promise<R> {
    const returns = this.#returns;
    if (this.#floors.size > 0 && !this.#isFullDue()) {
      const reply = await look(this.#floorsOf(queues));
      const tasks = found(reply);
      if (tasks.length > 0) {
        this.#note(tasks, returns);
        return reply;
      }
    }
    const from = this.#monotonic();
    const reply = await look(queues.flatMap(() => NO_FLOORS));
    this.#fullAt = this.#monotonic();
    this.#fullTookMs = this.#fullAt - from;
    this.#note(found(reply), returns);
    return reply;
  }

  /** There may be tasks before the floors: the next look is from the beginning. */
  reset(): void {
    this.#returns += 1;
    this.#floors.clear();
  }

  /** These tasks wait again, perhaps before the floors: the next look begins with them. */
  lower(tasks: readonly DueTask[]): void {
    if (tasks.length > 0) this.#returns += 1;
    for (const { queue, priority, dueMs } of tasks) {
      const key = `${priority} ${queue}`;
      // The time is rounded.
      const floorMs = dueMs - 1;
      if (floorMs < (this.#floors.get(key) ?? -Infinity)) this.#floors.set(key, floorMs);
    }
  }

  #isFullDue(): boolean {
    const pauseMs = Math.max(LEAST_PAUSE_MS, this.#fullTookMs * SHARE);
    return this.#monotonic() - this.#fullAt >= pauseMs;
  }

  #floorsOf(queues: readonly string[]): readonly (number | null)[] {
    return queues.flatMap(queue =>
      NO_FLOORS.map((_, priority) => this.#floors.get(`${priority} ${queue}`) ?? null),
    );
  }

  #note(tasks: readonly DueTask[], returns: number): void {
    if (returns !== this.#returns) return;
    for (const { queue, priority, dueMs } of tasks) {
      const floorMs = dueMs - OVERLAP_MS;
      const key = `${priority} ${queue}`;
      if (Number.isFinite(floorMs) && floorMs > (this.#floors.get(key) ?? -Infinity))
        this.#floors.set(key, floorMs);
    }
  }
}

const NO_FLOORS: readonly null[] = Array.from({ length: PRIORITIES }, () => null);
