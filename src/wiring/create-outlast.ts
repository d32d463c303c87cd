import { fromDatabase, type SqlTransaction } from '../adapters/postgres/sql-transaction.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { outlastError } from '../errors/error.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { Producer } from '../outbox/producer.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import {
  createHandle,
  type HandleDeps,
  type HandleOrigin,
  type TaskHandle,
} from '../result/result-handle.ts';
import { createGroupHandle } from '../result/group-handle.ts';
import { safeName } from '../task/names.ts';
import type { SendOptions } from '../task/define-task.ts';
import type { Call, Task } from '../task/define-task.ts';
import { currentTask } from '../worker/context.ts';
import { defineHandler } from '../worker/handler.ts';
import type { HandlerOrigin } from '../worker/door.ts';
import { doorOf } from './door-of.ts';
import { Internals } from './internals.ts';
import { chordQueueOf } from './messaging.ts';
import { lockIn } from './lock-in.ts';
import { INTERNALS, type CreateOptions, type Outlast } from './outlast.ts';
import { redactOf } from './redact-of.ts';
import type { Stores } from './stores.ts';
import { dialectOf, refuseOtherDialect, writerOf } from './writer-of.ts';

/**
 * Makes the instance an application works with. Nothing is connected before it is needed.
 *
 * @example
 * export const outlast = createOutlast({ ...config, adapter: fromPg(pool) });
 */
export function createOutlast<Tx = SqlTransaction>(options: CreateOptions<Tx> = {}): Outlast<Tx> {
  const { adapter, outbox, ...config } = options;
  return instanceOf(new Internals(config, outbox), adapter);
}

/** The same on stores that are open already: for `dev`, where one process holds the only handle. */
export function createOutlastOn(stores: Stores, options: CreateOptions<SqlTransaction>): Outlast {
  const { adapter, outbox, ...config } = options;
  return instanceOf(new Internals(config, outbox, stores), adapter);
}

function instanceOf<Tx>(
  internals: Internals,
  given: TransactionAdapter<Tx> | undefined,
): Outlast<Tx> {
  const { config, outboxTarget } = internals;
  const dialect = dialectOf(outboxTarget ?? config.database);
  const own = fromDatabase(() => internals.outboxDatabase(), dialect);
  const adapter = given ?? (own as unknown as TransactionAdapter<Tx>);
  refuseOtherDialect(adapter.dialect, dialect);
  const producer = makeProducer(internals, adapter);
  const handleDeps: HandleDeps = {
    clock: internals.runtime.clock,
    results: () => internals.results(),
    cancel: async (task, id) => {
      const status = await cancelTask(id, await internals.adminStores());
      const { name, contract } = task;
      if (status === 'ok')
        internals.runtime.emit('task:cancelled', { id, name, queue: contract.queue });
    },
  };
  const handleOf = (task: Task, origin: HandleOrigin): TaskHandle =>
    createHandle(task, origin, handleDeps);
  const handleOfCall = (sent: SentCall, isUncommitted: () => boolean): TaskHandle =>
    'members' in sent
      ? createGroupHandle(
          sent,
          sent.members.map(member => handleOf(member.task, { ...member, isUncommitted })),
          handleDeps,
        )
      : handleOf(sent.task, { id: sent.id, isNew: sent.isNew, before: sent.before, isUncommitted });
  const origin: HandlerOrigin = {
    door: parts => doorOf(adapter, internals, parts),
    sendInside: async (tx, task, input, sendOptions) => {
      const [sent] = await producer.send(tx as Tx, [{ task, input, options: sendOptions }]);
      return sent?.id ?? '';
    },
  };
  const isEmbedded = config.database.kind === 'pglite';
  const sentHandle = (tx: Tx, sent: SentCall): TaskHandle => {
    const isUncommitted = (): boolean => adapter.status(tx) === 'open';
    const handle = handleOfCall(sent, isUncommitted);
    return isEmbedded ? refuseInside(handle, isUncommitted) : handle;
  };
  const made = {
    send: async (tx: Tx, task: Task, input?: unknown, sendOptions: SendOptions = {}) => {
      const [sent] = await producer.send(tx, [{ task, input, options: sendOptions }]);
      return sentHandle(tx, sent as SentCall);
    },
    sendMany: async (tx: Tx, calls: readonly Call[]) =>
      (await producer.send(tx, calls)).map(sent => sentHandle(tx, sent)),
    push: async (task: Task, input?: unknown, sendOptions: SendOptions = {}) => {
      const id = await producer.push({ task, input, options: sendOptions });
      return handleOf(task, { id, isNew: true, isUncommitted: () => false });
    },
    admit: (task: Task, input?: unknown, sendOptions: SendOptions = {}) =>
      producer.admit({ task, input, options: sendOptions }),
    find: (task: Task, id: string) =>
      handleOf(task, { id: safeName(id, 'task id'), isNew: false, isUncommitted: () => false }),
    transaction: <T>(fn: (tx: Tx) => Promise<T>) => adapter.transaction(fn),
    handler: (task: Task, handler: Parameters<typeof defineHandler>[1]) =>
      defineHandler(task, handler, origin),
    idempotencyLock: lockIn(internals),
    on: internals.events.on.bind(internals.events),
    via: <Other>(other: TransactionAdapter<Other>) => instanceOf(internals, other),
    close: () => internals.close(),
    [Symbol.asyncDispose]: () => internals.close(),
    [INTERNALS]: internals,
  };
  return made as unknown as Outlast<Tx>;
}

/** The one backend of an embedded database is busy with the open transaction: whoever reads now waits for himself. */
function refuseInside(handle: TaskHandle, isUncommitted: () => boolean): TaskHandle {
  return {
    ...handle,
    result: async options => {
      if (!isUncommitted()) return await handle.result(options);
      throw outlastError('ERR_RESULT_BEFORE_COMMIT', {
        message: `${handle.id} is still in an open transaction, so nobody can run it yet`,
        hint: 'Ask for the result after COMMIT.',
        fields: { id: handle.id },
      });
    },
  };
}

function makeProducer<Tx>(internals: Internals, adapter: TransactionAdapter<Tx>): Producer<Tx> {
  const { config, log, runtime, outboxTarget } = internals;
  const book = new LimitBook(config.admission);
  return new Producer({
    adapter,
    writer: writerOf(adapter),
    broker: async () => (await internals.stores()).broker,
    admission: async () => {
      const { admission: store } = await internals.stores();
      return new Admission({ store, book, runtime });
    },
    book,
    random: runtime.random,
    clock: runtime.clock,
    log,
    strict: config.strict,
    excludeTasks: config.excludeTasks,
    maxPayloadBytes: config.maxPayloadBytes,
    redact: redactOf(config, runtime),
    keyring: config.keyring,
    chordQueue: chordQueueOf(config),
    notesChords: config.ledger.kind === 'database' && outboxTarget === null,
    parent: () => currentTask() ?? null,
  });
}
