import { STAND_IN, type StandIn, createParts } from '../app/create-outlast.ts';
import { CONTEXT, type Outlast } from '../app/outlast.ts';
import { outlastError } from '../errors/error.ts';
import type { FaultPointName } from '../runtime/runtime.ts';
import type { Task, TaskShape } from '../task/define-task.ts';
import { type Duration, durationMs } from '../task/duration.ts';
import type { Envelope } from '../task/envelope.ts';
import { decodeBody, inputFromCall } from '../task/input.ts';
import { decodeJson, toText } from '../task/json.ts';
import type { Handler } from '../worker/handler.ts';
import { KitDriver } from './kit-driver.ts';
import { type KitStep, KitStores, faultError } from './kit-stores.ts';
import { type KitClock, KitTime } from './kit-time.ts';
import { kitPorts } from './kit-transactions.ts';
import { type PerformOptions, type PerformOutcome, perform } from './perform.ts';

/** Options of `createTestKit`. */
export interface TestKitOptions<Tx> {
  /** The handlers that a drain runs. */
  readonly tasks?: readonly Handler[];
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

/** An instance whose stores are in memory until the kit is disposed. */
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
  /** Every task of this contract that was committed or pushed, in order. */
  sent<S extends TaskShape>(task: Task<S>): readonly SentTask<S['input']>[];
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
 * connected.
 *
 * @example
 * await using kit = await createTestKit(outlast, { tasks: [chargeHandler] });
 */
export async function createTestKit<Tx>(
  outlast: Outlast<Tx>,
  options: TestKitOptions<Tx> = {},
): Promise<TestKit> {
  const stand = (outlast as unknown as { readonly [STAND_IN]: StandIn })[STAND_IN];
  if (stand.parts !== null) throw taken();
  const origin = outlast[CONTEXT];
  const time = new KitTime((options.now ?? new Date()).getTime());
  const kit = new KitStores(time.clock);
  const { broker } = kit.stores;
  // What the test itself pushes may fail; what workers and relays publish has points of its own.
  const stores = {
    ...kit.stores,
    broker: {
      ...broker,
      publish: ((messages, manner) =>
        kit.step('push', () => broker.publish(messages, manner))) satisfies typeof broker.publish,
    },
  };
  const context = origin.onStores(async () => stores, { clock: time.callersClock });
  const parts = createParts(context, kitPorts<Tx>(kit, options.tx));
  stand.parts = parts as unknown as NonNullable<StandIn['parts']>;
  const driver = new KitDriver(origin, options.tasks ?? [], { time, stores: kit });
  return {
    clock: time,
    drain: async ({ within = '0ms' } = {}) => {
      await driver.drain(time.nowMs + durationMs(within, 'within'));
      return report(kit, driver.crashes);
    },
    relayOnce: () => driver.relay('pass'),
    perform: async (handler, input, before = {}) =>
      await perform(driver, context, handler, { input, ...before }),
    sent: task => sentOf(kit, task),
    crashAt: point => driver.crashAt(point),
    failNext: (step, error = faultError(`\`${step}\` failed, and had no effect`)) =>
      kit.arm(step, { error, isLate: false }),
    loseReply: step =>
      kit.arm(step, { error: faultError(`\`${step}\` was not answered`), isLate: true }),
    rolledBack: fn => rolledBack(kit, async roll => await outlast.transaction(tx => roll(fn, tx))),
    [Symbol.asyncDispose]: async () => {
      stand.parts = null;
      await context.close();
    },
  };
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
  const escaped = [...kit.sent.values()].filter(({ id }) => !before.has(id));
  return escaped.map(envelope => describe(envelope, inputOf(envelope)));
}

function sentOf<S extends TaskShape>(
  kit: KitStores,
  task: Task<S>,
): readonly SentTask<S['input']>[] {
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
