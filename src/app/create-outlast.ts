import type { Dialect } from '../adapters/sql/dialect.ts';
import { fromDatabase, type SqlTransaction } from '../adapters/sql/sql-transaction.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { dialectRow } from '../config/database-url.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { anywhere, insideTransaction } from '../outbox/inside-transaction.ts';
import { Producer, type ProducerDeps } from '../outbox/producer.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import type { TaskHandle } from '../result/result-handle.ts';
import { safeKey } from '../task/names.ts';
import type { SendOptions } from '../task/define-task.ts';
import type { Call, Task } from '../task/define-task.ts';
import { currentTask } from '../worker/context.ts';
import { defineHandler } from '../worker/handler.ts';
import type { HandlerOrigin } from '../worker/effects/door.ts';
import { compareDatabases, comparing, refuseOtherDialect } from './adapter-database.ts';
import { openContext, type Context } from '../context/context.ts';
import { chordQueueOf } from '../context/messaging.ts';
import { loadDialect } from '../context/openers.ts';
import { isStartedByWorker } from '../process/is-started-by-worker.ts';
import { lateDoor, lateWriter } from './late-dialect.ts';
import { createLock } from './create-lock.ts';
import { CONTEXT, type CreateOptions, type Outlast } from './outlast.ts';
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
  return createInstance(openContext(config, { outbox, embedded }), adapter);
}

/** An instance on a context that the caller opened, and closes. */
export function createOutlastOn(context: Context): Outlast {
  return createInstance<SqlTransaction>(context, undefined);
}

function createInstance<Tx>(
  context: Context,
  given: TransactionAdapter<Tx> | undefined,
): Outlast<Tx> {
  const { config, outbox } = context;
  const target = outbox?.target ?? config.database;
  const row = dialectRow(target);
  const load = (): Promise<Dialect> => loadDialect(target);
  const own = fromDatabase(async () => (await context.outboxDatabase()).db, row.language);
  const adapter = given ?? (own as unknown as TransactionAdapter<Tx>);
  refuseOtherDialect(adapter.dialect, row);
  const sameDatabase = given === undefined ? null : compareDatabases(given, context);
  const producer = makeProducer(context, {
    adapter,
    sameDatabase,
    writer: lateWriter(load, insideTransaction(adapter)),
    lenientWriter: lateWriter(load, anywhere(adapter)),
  });
  const handles = new TaskHandles(context);
  const isLedgerHere = outbox === null && config.ledger.kind === 'database';
  const origin: HandlerOrigin = {
    door: parts => lateDoor(load, comparing(adapter, sameDatabase), { ...parts, isLedgerHere }),
    sendInside: async (tx, task, input, sendOptions) => {
      const [sent] = await producer.send(tx as Tx, [{ task, input, options: sendOptions }]);
      return sent?.id ?? '';
    },
  };
  const sentHandle = (tx: Tx, sent: SentCall): TaskHandle =>
    // Our own handle is closed when it reports `none`; for another library only `open` is certain.
    handles.ofCall(sent, () =>
      given === undefined ? adapter.status(tx) !== 'none' : adapter.status(tx) === 'open',
    );
  const made = {
    send: async (tx: Tx, task: Task, input?: unknown, sendOptions: SendOptions = {}) => {
      const [sent] = await producer.send(tx, [{ task, input, options: sendOptions }]);
      return sentHandle(tx, sent as SentCall);
    },
    sendMany: async (tx: Tx, calls: readonly Call[]) =>
      (await producer.send(tx, calls)).map(sent => sentHandle(tx, sent)),
    push: async (task: Task, input?: unknown, sendOptions: SendOptions = {}) => {
      const id = await producer.push({ task, input, options: sendOptions });
      return handles.of(task, { id, isNew: true, isUncommitted: () => false });
    },
    admit: (task: Task, input?: unknown, sendOptions: SendOptions = {}) =>
      producer.admit({ task, input, options: sendOptions }),
    find: (task: Task, id: string) =>
      handles.of(task, {
        id: safeKey(id, 'the id of a task'),
        isNew: false,
        isUncommitted: () => false,
      }),
    transaction: <T>(fn: (tx: Tx) => Promise<T>) => adapter.transaction(fn),
    handler: (task: Task, handler: Parameters<typeof defineHandler>[1]) =>
      defineHandler(task, handler, origin),
    idempotencyLock: createLock(context),
    on: context.events.on.bind(context.events),
    via: <Other>(other: TransactionAdapter<Other>) => createInstance(context, other),
    close: () => context.close(),
    [Symbol.asyncDispose]: () => context.close(),
    [CONTEXT]: context,
  };
  return made as unknown as Outlast<Tx>;
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
  });
}
