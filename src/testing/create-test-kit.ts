import { STAND_IN, type StandIn, createParts } from '../app/create-outlast.ts';
import { CONTEXT, type Outlast } from '../app/outlast.ts';
import type { Context } from '../context/context.ts';
import { outlastError } from '../errors/error.ts';
import type { FaultPointName } from '../runtime/runtime.ts';
import type { Task, TaskShape } from '../task/define-task.ts';
import { type Duration, durationMs } from '../task/duration.ts';
import type { Envelope } from '../task/envelope.ts';
import { decodeBody, inputFromCall } from '../task/input.ts';
import { decodeJson, toText } from '../task/json.ts';
import type { Handler } from '../worker/handler.ts';
import { KitDatabase } from './kit-database.ts';
import { KitDriver } from './kit-driver.ts';
import { type KitStep, KitStores, faultError } from './kit-stores.ts';
import { type KitClock, KitTime } from './kit-time.ts';
import { kitPorts } from './kit-transactions.ts';
import { type PerformOptions, type PerformOutcome, perform } from './perform.ts';

/** Options of `createTestKit`. */
export interface TestKitOptions<Tx> {
  /** The handlers that a drain runs. */
  readonly tasks?: readonly Handler[];
  /**
   * `database`: tasks are sent through your own adapter into the outbox of your own database, with your data, and are gone
   * after your ROLLBACK; from there the kit takes them into memory, where all else stays. PostgreSQL and PGlite. @default 'memory'
   */
  readonly outbox?: 'memory' | 'database';
  /** Makes what your code gets as its transaction. @default an object that refuses every call and says so */
  readonly tx?: () => Tx;
  /** Where the clock of the kit starts. @default the real time */
  readonly now?: Date;
}

/** A task that was committed or pushed. */
export interface SentTask<Input = unknown> {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly input: Input;
  readonly headers: Readonly<Record<string, string>>;
  readonly eta: Date | null;
}

/** What has become of the tasks after a drain. */
export interface DrainReport {
  readonly done: number;
  readonly discarded: number;
  readonly dead: number;
  readonly cancelled: number;
  /** They wait for their time, for a handler, or behind a limit. */
  readonly waiting: number;
  /** The fault points at which a process has died, since the kit was made. */
  readonly crashes: readonly string[];
}

/** An instance whose stores are in memory until the kit is disposed; its outbox may be in your database. */
export interface TestKit extends AsyncDisposable {
  readonly clock: KitClock;
  /**
   * Relays and runs until nothing is due. With `within` the clock moves on by up to that much to what is due later, such as
   * retries.
   */
  drain(options?: { readonly within?: Duration }): Promise<DrainReport>;
  /** One pass of the relay; returns how many tasks it moved on. */
  relayOnce(): Promise<number>;
  /** One run of a handler through the real worker, beside everything else; what it sends counts as sent. */
  perform(handler: Handler, input?: unknown, before?: PerformOptions): Promise<PerformOutcome>;
  /**
   * Every task of this contract that was committed or pushed, in order. With `outbox: 'database'` it throws while a send is in
   * a transaction whose end was not seen.
   *
   * @throws ERR_RESULT_BEFORE_COMMIT
   */
  sent<S extends TaskShape>(task: Task<S>): readonly SentTask<S['input']>[];
  /**
   * With `outbox: 'database'`: finds out which sends were committed in transactions that your own code has ended.
   * `outlast.transaction`, `relayOnce` and `drain` do it by themselves.
   *
   * @example
   * await client.query('commit');
   * await kit.look();
   * assertSent(kit, charge, { times: 1 });
   */
  look(): Promise<void>;
  /** The process that reaches this point next dies there; its tasks come back as after a real crash. */
  crashAt(point: FaultPointName): void;
  /** The next such step fails and has no effect. */
  failNext(step: KitStep, error?: Error): void;
  /** The next such step has its effect, and its answer is lost. */
  loseReply(step: KitStep): void;
  /** Runs `fn` in a transaction that is rolled back; returns the tasks that were sent all the same. */
  rolledBack(fn: (tx: never) => Promise<unknown>): Promise<readonly SentTask[]>;
}

/**
 * Puts stores in memory in the place of those of an instance, with the same semantics, until the kit is disposed. Nothing is
 * connected, but for `outbox: 'database'`.
 *
 * @throws ERR_OPTIONS_CONFLICT, ERR_CONFIG_TIER, ERR_SCHEMA_MISSING
 *
 * @example
 * await using kit = await createTestKit(outlast, { tasks: [chargeHandler] });
 */
export async function createTestKit<Tx>(
  outlast: Outlast<Tx>,
  options: TestKitOptions<Tx> = {},
): Promise<TestKit> {
  checkOptions(options);
  const stand = (outlast as unknown as { readonly [STAND_IN]: StandIn })[STAND_IN];
  if (stand.make !== null) throw taken();
  const origin = outlast[CONTEXT];
  const time = new KitTime((options.now ?? new Date()).getTime());
  const kit = new KitStores(time.clock);
  const database =
    options.outbox === 'database' ? new KitDatabase(origin.forService({}), kit) : null;
  kit.database = database;
  const context = contextOf(origin, kit, time, database);
  stand.make = standIn(context, database, () => createParts(context, kitPorts(kit, options.tx)));
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= end());
  const end = async (): Promise<void> => {
    stand.make = null;
    await Promise.all([database?.close(), context.close()]);
  };
  if (database !== null) await ready(outlast, database, close);
  const driver = new KitDriver(origin, options.tasks ?? [], { time, stores: kit });
  return {
    clock: time,
    drain: async ({ within = '0ms' } = {}) => {
      await driver.drain(time.nowMs + durationMs(within, 'within'));
      return report(kit, driver.crashes);
    },
    relayOnce: () => driver.relay('pass'),
    perform: async (handler, input, before = {}) => {
      const outcome = await perform(driver, context, handler, { input, ...before });
      await database?.look();
      return outcome;
    },
    sent: task => sentOf(kit, task),
    look: async () => await database?.look(),
    crashAt: point => driver.crashAt(point),
    failNext: (step, error = faultError(`\`${step}\` failed, and had no effect`)) =>
      kit.arm(step, { error, isLate: false }),
    loseReply: step =>
      kit.arm(step, { error: faultError(`\`${step}\` was not answered`), isLate: true }),
    rolledBack: fn => rolledBack(kit, async roll => await outlast.transaction(tx => roll(fn, tx))),
    [Symbol.asyncDispose]: close,
  };
}

function checkOptions<Tx>({ outbox, tx }: TestKitOptions<Tx>): void {
  if (outbox !== undefined && outbox !== 'memory' && outbox !== 'database')
    throw outlastError('ERR_CONFIG_TIER', {
      message: `the outbox of a test kit cannot be in ${String(outbox)}`,
      hint: "Give 'memory' or 'database'.",
      fields: { option: 'outbox' },
    });
  if (outbox !== 'database' || tx === undefined) return;
  throw outlastError('ERR_OPTIONS_CONFLICT', {
    message: "a test kit with `outbox: 'database'` has real transactions, and makes none with `tx`",
    hint: 'Leave out one of the two.',
    fields: { options: ['outbox', 'tx'] },
  });
}

/** Connects, before the first send needs it. */
async function ready<Tx>(
  outlast: Outlast<Tx>,
  database: KitDatabase,
  close: () => Promise<void>,
): Promise<void> {
  try {
    // Makes the parts of the instance, which load what writes.
    void outlast[CONTEXT];
    await database.open();
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
}

function contextOf(
  origin: Context,
  kit: KitStores,
  time: KitTime,
  database: KitDatabase | null,
): Context {
  const own = database?.behind(kit.stores) ?? kit.stores;
  const { broker } = own;
  // What the test itself pushes may fail; what workers and relays publish has points of its own.
  const stores = {
    ...own,
    broker: {
      ...broker,
      publish: ((messages, manner) =>
        kit.step('push', () => broker.publish(messages, manner))) satisfies typeof broker.publish,
    },
  };
  return origin.onStores(async () => stores, { clock: time.callersClock });
}

/** The parts in the place of an instance's own: in memory, or around its own way into its database. */
function standIn(
  context: Context,
  database: KitDatabase | null,
  inMemory: () => unknown,
): NonNullable<StandIn['make']> {
  if (database !== null) return own => createParts(context, database.around(own(database.context)));
  const parts = inMemory();
  return () => parts as never;
}

type Roll = (fn: (tx: never) => Promise<unknown>, tx: unknown) => Promise<never>;

async function rolledBack(
  kit: KitStores,
  run: (roll: Roll) => Promise<unknown>,
): Promise<readonly SentTask[]> {
  const before = new Set(kit.sent.keys());
  const end = new Error('rolled back by the test kit');
  try {
    await run(async (fn, tx) => {
      await fn(tx as never);
      throw end;
    });
  } catch (error) {
    if (error !== end) throw error;
  }
  await kit.database?.look();
  const escaped = [...kit.sent.values()].filter(({ id }) => !before.has(id));
  return escaped.map(envelope => describe(envelope, inputOf(envelope)));
}

function sentOf<S extends TaskShape>(
  kit: KitStores,
  task: Task<S>,
): readonly SentTask<S['input']>[] {
  kit.database?.refuseUnseen();
  return [...kit.sent.values()]
    .filter(({ name }) => name === task.name)
    .map(envelope =>
      describe(envelope, inputFromCall(task.contract, decodeBody(envelope.body)) as S['input']),
    );
}

/** Without the contract: an object as it is, and a lone argument as itself. */
function inputOf({ body }: Envelope): unknown {
  const { args, kwargs } = decodeBody(body);
  return args.length === 1 ? args[0] : args.length === 0 ? kwargs : args;
}

function describe<Input>(envelope: Envelope, input: Input): SentTask<Input> {
  const { id, name, queue, etaMs } = envelope;
  const { headers = {} } = decodeJson(toText(envelope.options)) as {
    readonly headers?: SentTask['headers'];
  };
  return { id, name, queue, input, headers, eta: etaMs === null ? null : new Date(etaMs) };
}

function report({ ledger, outbox }: KitStores, crashes: readonly string[]): DrainReport {
  const records = [...ledger.state.records.values()];
  const ended = (ending: string): number =>
    records.filter(record => record.ending === ending).length;
  return {
    done: ended('done'),
    discarded: ended('discarded'),
    dead: ended('dead') + outbox.deadLetters.size,
    cancelled: ended('cancelled') + ended('expired'),
    waiting: records.filter(({ state }) => state === 'waiting').length + outbox.rows.size,
    crashes: [...crashes],
  };
}

function taken(): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message: 'this instance is in the hands of another test kit',
    hint: 'Dispose that one first: `await using kit = …`, or `await kit[Symbol.asyncDispose]()` after each test.',
    fields: { options: ['createTestKit'] },
  });
}
