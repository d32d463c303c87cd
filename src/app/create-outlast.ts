import type { Dialect } from '../adapters/sql/dialect.ts';
import { fromDatabase, type SqlTransaction } from '../adapters/sql/sql-transaction.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { dialectRow } from '../config/database-url.ts';
import { outlastError } from '../errors/error.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { anywhere, insideTransaction } from '../outbox/inside-transaction.ts';
import { Producer, type ProducerDeps } from '../outbox/producer.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { TaskHandle } from '../result/result-handle.ts';
import { isTask, type Call, type SendOptions, type Task } from '../task/define-task.ts';
import { safeKey } from '../task/names.ts';
import { stderrLogger, type Logger, type LogLevel } from '../telemetry/logger.ts';
import { currentTask } from '../worker/context.ts';
import { defineHandler } from '../worker/handler.ts';
import type { DoorParts, EffectDoor, HandlerOrigin } from '../worker/effects/door.ts';
import { compareDatabases, comparing, refuseOtherDialect } from './adapter-database.ts';
import { openContext, type Context } from '../context/context.ts';
import { chordQueueOf } from '../context/messaging.ts';
import { loadDialect } from '../context/openers.ts';
import { makeSurroundings } from './surroundings.ts';
import { isStartedByWorker } from '../process/is-started-by-worker.ts';
import { lateDoor, lateWriter } from './late-dialect.ts';
import { createSchedules } from './create-schedules.ts';
import { createLock } from './create-lock.ts';
import { CONTEXT, type CreateOptions, type Outlast } from './outlast.ts';
import { STAND_IN, type Parts, type StandIn } from './stand-in.ts';
import { TaskHandles } from './task-handles.ts';

/**
 * Creates the instance that an application works with. Nothing is connected before it is needed.
 *
 * @example
 * export const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
 */
export function createOutlast<Tx = SqlTransaction>(options: CreateOptions<Tx> = {}): Outlast<Tx> {
  const { adapter, outbox, ...config } = options;
  // A process that a worker has started reaches an embedded database through the process that holds it. If that one is
  // killed, its children must not take the folder and block the next start.
  const embedded = isStartedByWorker() ? 'join' : 'create';
  const makeLog = (level: LogLevel | null): Logger =>
    stderrLogger({ level: level ?? 'warn', json: false });
  return createInstance(openContext(config, { outbox, embedded, makeLog }), adapter);
}

/** An instance on a context that the caller opened, and closes. */
export function createOutlastOn(context: Context): Outlast {
  return createInstance<SqlTransaction>(context, undefined);
}

function createInstance<Tx>(
  context: Context,
  given: TransactionAdapter<Tx> | undefined,
  stand: StandIn = { parts: null },
): Outlast<Tx> {
  const own = createParts(context, ownPorts(context, given));
  const current = (): Parts<Tx> => (stand.parts as Parts<Tx> | null) ?? own;
  const origin: HandlerOrigin = {
    door: parts => current().origin.door(parts),
    sendInside: (...sent) => current().origin.sendInside(...sent),
  };
  const made = {
    send: (...sent: Parameters<Parts<Tx>['send']>) => current().send(...sent),
    sendMany: (tx: Tx, calls: readonly Call[]) => current().sendMany(tx, calls),
    push: (...pushed: Parameters<Parts<Tx>['push']>) => current().push(...pushed),
    admit: (...asked: Parameters<Parts<Tx>['admit']>) => current().admit(...asked),
    find: (task: Task, id: string) => current().find(task, id),
    transaction: <T>(fn: (tx: Tx) => Promise<T>) => current().transaction(fn),
    handler: (task: Task, handler: Parameters<typeof defineHandler>[1]) =>
      defineHandler(task, handler, origin),
    idempotencyLock: (...asked: Parameters<Outlast['idempotencyLock']>) =>
      current().idempotencyLock(...asked),
    get schedules() {
      return current().schedules;
    },
    on: context.events.on.bind(context.events),
    via: <Other>(other: TransactionAdapter<Other>) => createInstance(context, other, stand),
    close: () => context.close(),
    [Symbol.asyncDispose]: () => context.close(),
    get [CONTEXT]() {
      return current().context;
    },
    [STAND_IN]: stand,
  };
  return made as unknown as Outlast<Tx>;
}

/** What an instance does its work through: a library's transactions, and the tables in their database. */
export interface InstancePorts<Tx> extends Pick<
  ProducerDeps<Tx>,
  'adapter' | 'sameDatabase' | 'writer' | 'lenientWriter'
> {
  door(parts: DoorParts): EffectDoor<Tx>;
  /** Whether a handle is in a transaction that is still open. */
  isUncommitted(tx: Tx): boolean;
}

function ownPorts<Tx>(
  context: Context,
  given: TransactionAdapter<Tx> | undefined,
): InstancePorts<Tx> {
  const { config, outbox } = context;
  const target = outbox?.target ?? config.database;
  const row = dialectRow(target);
  const load = (): Promise<Dialect> => loadDialect(target);
  const own = fromDatabase(async () => (await context.outboxDatabase()).db, row.language);
  const adapter = given ?? (own as unknown as TransactionAdapter<Tx>);
  refuseOtherDialect(adapter.dialect, row);
  const sameDatabase = given === undefined ? null : compareDatabases(given, context);
  const isLedgerHere = outbox === null && config.ledger.kind === 'database';
  return {
    adapter,
    sameDatabase,
    writer: lateWriter(load, insideTransaction(adapter)),
    lenientWriter: lateWriter(load, anywhere(adapter)),
    door: parts => lateDoor(load, comparing(adapter, sameDatabase), { ...parts, isLedgerHere }),
    // Our own handle is closed when it reports `none`; for another library only `open` is certain.
    isUncommitted: tx =>
      given === undefined ? adapter.status(tx) !== 'none' : adapter.status(tx) === 'open',
  };
}

/** What an instance does, on one context. */
export function createParts<Tx>(context: Context, ports: InstancePorts<Tx>): Parts<Tx> {
  const { adapter } = ports;
  const producer = makeProducer(context, ports);
  const handles = new TaskHandles(context);
  const origin: HandlerOrigin = {
    door: parts => ports.door(parts),
    sendInside: async (tx, task, input, sendOptions) => {
      const [sent] = await producer.send(tx as Tx, [{ task, input, options: sendOptions }]);
      return sent?.id ?? '';
    },
  };
  const sentHandle = (tx: Tx, sent: SentCall): TaskHandle =>
    handles.ofCall(sent, () => ports.isUncommitted(tx));
  return {
    context,
    origin,
    send: async (tx, ...given) => {
      const [sent] = await producer.send(tx, [asCall(...given)]);
      return sentHandle(tx, sent as SentCall);
    },
    sendMany: async (tx, calls) =>
      (await producer.send(tx, calls)).map(sent => sentHandle(tx, sent)),
    push: async (task, input, sendOptions = {}) => {
      const id = await producer.push({ task, input, options: sendOptions });
      return handles.of(task, { id, isNew: true, isUncommitted: () => false });
    },
    admit: (task, input, sendOptions = {}) => producer.admit({ task, input, options: sendOptions }),
    find: (task, id) =>
      handles.of(task, {
        id: safeKey(id, 'the id of a task'),
        isNew: false,
        isUncommitted: () => false,
      }),
    transaction: fn => adapter.transaction(fn),
    schedules: createSchedules(context),
    idempotencyLock: createLock(context),
  };
}

/** A call brings its input and options along: others beside it would be ignored. */
function asCall(task: Task | Call, input?: unknown, options?: SendOptions): Call {
  if (isTask(task)) return { task, input, options: options ?? {} };
  if (input === undefined && options === undefined) return task;
  throw outlastError('ERR_TASK_UNKNOWN', {
    message: 'input or options are given beside a workflow, or beside a task that has them already',
    hint: 'Give them to its tasks: send(tx, chain(first.with(input, options), second)).',
    fields: { task: '' },
  });
}

function makeProducer<Tx>(
  context: Context,
  parts: Pick<ProducerDeps<Tx>, 'adapter' | 'sameDatabase' | 'writer' | 'lenientWriter'>,
): Producer<Tx> {
  const { config, log, runtime, redact, outbox } = context;
  const book = new LimitBook(config.admission);
  return new Producer({
    ...parts,
    broker: async () => (await context.stores()).broker,
    admission: async () => {
      const { admission: store } = await context.stores();
      return new Admission({ store, book, runtime });
    },
    book,
    random: runtime.random,
    clock: runtime.clock,
    log,
    strict: config.strict,
    excludeTasks: config.excludeTasks,
    maxPayloadBytes: config.maxPayloadBytes,
    redact,
    keyring: config.keyring,
    chordQueue: chordQueueOf(config),
    notesChords: config.ledger.kind === 'database' && outbox === null,
    parent: () => currentTask() ?? null,
    surroundings: makeSurroundings(context),
  });
}
