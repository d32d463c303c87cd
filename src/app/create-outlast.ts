import type { Dialect } from '../adapters/sql/dialect.ts';
import { type SqlTransaction, fromDatabase } from '../adapters/sql/sql-transaction.ts';
import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import { dialectRow, isEmbedded } from '../config/database-url.ts';
import { outlastError } from '../errors/error.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { anywhere, insideTransaction } from '../outbox/inside-transaction.ts';
import { Producer, type ProducerDeps } from '../outbox/producer.ts';
import type { TransactionAdapter } from '../outbox/transaction-adapter.ts';
import {
  type HandleDeps,
  type HandleOrigin,
  type TaskHandle,
  createGroupHandle,
  createHandle,
} from '../result/result-handle.ts';
import {
  type Call,
  type Permit,
  type SendOptions,
  type Task,
  isTask,
} from '../task/define-task.ts';
import { safeKey } from '../task/names.ts';
import { type LogLevel, type Logger, silentLogger, stderrLogger } from '../telemetry/logger.ts';
import { currentTask } from '../worker/context.ts';
import { defineHandler } from '../worker/handler.ts';
import type { DoorParts, EffectDoor, HandlerOrigin } from '../worker/effects/door.ts';
import {
  compareDatabases,
  comparing,
  lateDoor,
  lateWriter,
  refuseOtherDialect,
} from './adapter-database.ts';
import { type Context, openContext } from '../context/context.ts';
import { chordQueueOf, writerOptions } from '../context/messaging.ts';
import { refuseUntold } from '../context/tier-memory.ts';
import { loadDialect, spareIdempotency } from '../context/openers.ts';
import { makeSurroundings } from './surroundings.ts';
import { isStartedByWorker } from '../process/worker-spec.ts';
import { type Schedules, createSchedules } from './create-schedules.ts';
import { CONTEXT, type CreateOptions, type Outlast } from './outlast.ts';
import { systemClock, systemRandom } from '../runtime/runtime.ts';
import { LOCK_TIMES, type LockStore, runLocked } from '../idempotency/idempotency-lock.ts';
import type { IdempotencyStore } from '../idempotency/idempotency-store.ts';
import { HedgedStore } from '../runtime/hedged-store.ts';
import { durationMs } from '../task/duration.ts';
import { cancelTask } from '../outbox/cancel-task.ts';
import { revokeElsewhere } from '../context/revoke-elsewhere.ts';

/**
 * Creates the instance that an application works with. Nothing is connected before it is needed.
 *
 * @throws ERR_UNKNOWN_OPTION, ERR_OPTION_RANGE, ERR_OPTION_UNIT, ERR_OPTIONS_CONFLICT, ERR_CONFIG_TIER
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
  stand: StandIn = { make: null },
): Outlast<Tx> {
  const own = createParts(context, ownPorts(context, given));
  let standing: { readonly make: StandIn['make']; readonly parts: Parts<Tx> } | null = null;
  const current = (): Parts<Tx> => {
    const { make } = stand;
    if (make === null) return own;
    if (standing?.make !== make)
      standing = { make, parts: make<Tx>(on => ownPorts(on, given, 'outbox')) };
    return standing.parts;
  };
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

/** With a target: tasks are sent there, and the ledger is elsewhere. */
function ownPorts<Tx>(
  context: Context,
  given: TransactionAdapter<Tx> | undefined,
  sendTarget?: 'outbox',
): InstancePorts<Tx> {
  const { config, outbox } = context;
  const target = outbox?.target ?? config.database;
  const row = dialectRow(target);
  const load = (): Promise<Dialect> => loadDialect(target);
  const own = fromDatabase(async () => (await context.outboxDatabase()).db, row.language);
  const adapter = given ?? (own as unknown as TransactionAdapter<Tx>);
  refuseOtherDialect(adapter.dialect, row);
  const sameDatabase = given === undefined ? null : compareDatabases(given, context);
  const isLedgerHere =
    sendTarget === undefined && outbox === null && config.ledger.kind === 'database';
  const writing = {
    ...writerOptions(context),
    ...(sendTarget !== undefined && { target: sendTarget }),
  };
  return {
    adapter,
    sameDatabase,
    writer: lateWriter(load, insideTransaction(adapter), writing),
    lenientWriter: lateWriter(load, anywhere(adapter), writing),
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
  const cancel = ports.writer.cancel?.bind(ports.writer);
  const sentHandle = (tx: Tx, sent: SentCall): TaskHandle =>
    handles.ofCall(sent, {
      isUncommitted: () => ports.isUncommitted(tx),
      cancelInside: cancel && (id => cancel(tx, id)),
    });
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
    broker: async () => {
      const { broker, tiers } = await context.stores();
      await refuseUntold(tiers, config);
      return broker;
    },
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
    ...(runtime.traces === undefined ? {} : { traces: runtime.traces }),
  });
}

/** Sends calls through the outbox in a separate transaction: for commands, which have no transaction to join. */
export async function sendCalls(
  context: Context,
  calls: readonly Call[],
): Promise<readonly SentCall[]> {
  const { redact, config, outbox } = context;
  const { maxPayloadBytes, keyring } = config;
  const target = outbox?.target ?? config.database;
  const { db } = await context.outboxDatabase();
  const adapter = fromDatabase(() => Promise.resolve(db), dialectRow(target).language);
  const dialect = await loadDialect(target);
  const producer = new Producer({
    adapter,
    writer: dialect.writer(anywhere(adapter), writerOptions(context)),
    lenientWriter: null,
    sameDatabase: null,
    // No task is excluded from the outbox, so none goes straight to the broker.
    broker: () => Promise.reject(new Error('not asked for')),
    admission: () => Promise.reject(new Error('not asked for')),
    book: new LimitBook(config.admission),
    random: systemRandom,
    clock: systemClock,
    log: silentLogger,
    strict: true,
    excludeTasks: [],
    maxPayloadBytes,
    redact,
    keyring,
    // A command sends single tasks only.
    chordQueue: null,
    notesChords: false,
    parent: () => null,
  });
  return await adapter.transaction(tx => producer.send(tx, calls));
}

/** `idempotencyLock` on the stores of an instance. */
function createLock(context: Context): Outlast<never>['idempotencyLock'] {
  const { runtime, config } = context;
  let hedged: HedgedStore<IdempotencyStore> | null = null;
  let users = 0;
  return async (key, ttl, fn, { wait } = {}) => {
    const ttlMs = durationMs(ttl, 'ttl');
    const waitMs = wait === undefined ? null : durationMs(wait, 'wait');
    const { idempotency } = await context.stores();
    // Shared by all locks that are held at the same time, and so is its second connection.
    hedged ??= new HedgedStore(idempotency, spareIdempotency(config), runtime.clock, LOCK_TIMES);
    const [current, store] = [hedged, throughEither(hedged)];
    users += 1;
    try {
      return await runLocked({ key, ttlMs, waitMs, fn }, { store, runtime });
    } finally {
      users -= 1;
      if (users === 0) {
        hedged = null;
        await current.close();
      }
    }
  };
}

/** Each step is idempotent, so each may be sent on two connections. */
function throughEither(hedged: HedgedStore<IdempotencyStore>): LockStore {
  return {
    acquire: request => hedged.call(store => store.acquire(request)),
    renew: request => hedged.call(store => store.renew(request)),
    complete: request => hedged.call(store => store.complete(request)),
    free: request => hedged.call(store => store.free(request)),
  };
}

type InsideTransaction = Pick<HandleOrigin, 'isUncommitted' | 'cancelInside'>;

/** Creates the handles that an instance returns. */
class TaskHandles {
  readonly #deps: HandleDeps;
  readonly #isEmbedded: boolean;

  constructor(context: Context) {
    this.#isEmbedded = isEmbedded(context.config.database);
    this.#deps = {
      clock: context.runtime.clock,
      results: () => context.results(),
      cancel: async (task, id) => {
        const status = await cancelTask(id, await context.adminStores());
        if (status !== 'ok') return;
        const { name, contract } = task;
        context.runtime.emit('task:cancelled', { id, name, queue: contract.queue });
        await revokeElsewhere(context, id);
      },
    };
  }

  of(task: Task, origin: HandleOrigin): TaskHandle {
    return createHandle(task, origin, this.#deps);
  }

  ofCall(sent: SentCall, inside: InsideTransaction): TaskHandle {
    const handle = this.#ofCall(sent, inside);
    return this.#isEmbedded ? refuseInside(handle, inside.isUncommitted) : handle;
  }

  #ofCall(sent: SentCall, inside: InsideTransaction): TaskHandle {
    if (!('members' in sent)) {
      const { id, isNew, before } = sent;
      return this.of(sent.task, { id, isNew, before, ...inside });
    }
    const members = sent.members.map(member => this.of(member.task, { ...member, ...inside }));
    return createGroupHandle(sent, members, this.#deps);
  }
}

/** The one backend of an embedded database is busy with the open transaction: a read now would wait for itself. */
function refuseInside(handle: TaskHandle, isUncommitted: () => boolean): TaskHandle {
  return {
    ...handle,
    result: async options => {
      if (!isUncommitted()) return await handle.result(options);
      throw outlastError('ERR_RESULT_BEFORE_COMMIT', {
        message: `${handle.id} is still in an open transaction, so no worker can run it yet`,
        hint: 'Ask for the result after COMMIT.',
        fields: { id: handle.id },
      });
    },
  };
}

/** What an instance does, without the types of its tasks. */
export interface Parts<Tx> {
  readonly context: Context;
  readonly origin: HandlerOrigin;
  send(tx: Tx, given: Task | Call, input?: unknown, options?: SendOptions): Promise<TaskHandle>;
  sendMany(tx: Tx, calls: readonly Call[]): Promise<readonly TaskHandle[]>;
  push(task: Task, input?: unknown, options?: SendOptions): Promise<TaskHandle>;
  admit(task: Task, input?: unknown, options?: SendOptions): Promise<Permit>;
  find(task: Task, id: string): TaskHandle;
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
  readonly schedules: Schedules;
  readonly idempotencyLock: Outlast<never>['idempotencyLock'];
}

/** Makes what works in the place of an instance while it is tested; null: the instance itself. */
export interface StandIn {
  /** `ownPorts`: those of the instance on another context, where they write into the outbox only. */
  make: (<Tx>(ownPorts: (context: Context) => InstancePorts<Tx>) => Parts<Tx>) | null;
}

/** Under a key that two copies of the package share. */
export const STAND_IN: unique symbol = Symbol.for('outlast.stand-in') as never;
