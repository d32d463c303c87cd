import type { BegunTask, StepStatus } from '../ledger/ledger.ts';
import { rowOf } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { ALONE, composeTask } from '../outbox/compose.ts';
import { envelopeOf, type NewTask } from '../outbox/outbox-writer.ts';
import { noFaults, systemClock, systemRandom, uuidv7 } from '../runtime/runtime.ts';
import { contextHeaders, type ContextValues } from '../task/context-headers.ts';
import type { InputOf, SendOptions, Task, TaskCall, TaskShape } from '../task/define-task.ts';
import { decodeBody, inputFromCall, parseInput } from '../task/input.ts';
import { decodeJson, encodeJson, toBytes, toText } from '../task/json.ts';
import { NO_KEYS } from '../task/keyring.ts';
import type { Envelope } from '../task/envelope.ts';
import { SCHEDULE_HEADER, SLOT_HEADER } from '../task/schedule-headers.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger, type Logger } from '../telemetry/logger.ts';
import type { TaskContext } from '../worker/context.ts';
import type { HandlerOrigin } from '../worker/effects/door.ts';
import { defineHandler } from '../worker/handler.ts';
import { RunScope } from '../worker/run/run-scope.ts';
import { RunStop } from '../worker/run/settlement.ts';
import { refusingTx } from './kit-transactions.ts';

/** Options of `fakeContext`: what the handler is to find. */
export interface FakeContextOptions<Tx, C> {
  readonly id?: string;
  /** Failed runs + 1. @default 1 */
  readonly attempt?: number;
  /** @default 0 */
  readonly resurrections?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** What was captured where the task was sent. */
  readonly context?: ContextValues;
  readonly schedule?: { readonly name: string; readonly slot: Date };
  readonly deadline?: Date;
  readonly lastCheckpoint?: C;
  /** Makes what `ctx.transaction` hands to its function. @default an object that refuses every call and says so */
  readonly tx?: () => Tx;
  /** @default says nothing */
  readonly log?: Logger;
}

/** A follow-up that a handler has sent with `ctx.send`. */
export interface FakeSent {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly options: SendOptions;
}

/** A context, and what the handler has done with it. */
export interface FakeContext<
  S extends TaskShape = TaskShape,
  Tx = unknown,
  C = unknown,
> extends TaskContext<S, Tx, C> {
  readonly sent: readonly FakeSent[];
  /** What was given to `checkpoint`, in order, as JSON carries it. */
  readonly checkpoints: readonly C[];
  /** Fires `signal`, as when the lease is lost. Nothing can be written after that. */
  abort(): void;
  /** Fires `softSignal`, as when the worker drains. */
  drain(): void;
}

const LARGEST = rowOf(TOP_LEVEL_TABLE, 'maxPayloadBytes', 'integer').default as number;
/** Time does not pass: a test that wants a timeout calls `abort`. */
const clock = { ...systemClock, timer: () => () => undefined };

/**
 * The context of a run that does not take place, for a handler's function that is called directly. Input, checkpoints, values of
 * steps and what is sent are checked as in a worker. Sends with `outlast.send` are not seen: they need `createTestKit`.
 *
 * @example
 * const ctx = await fakeContext(charge, { orderId: '1', cents: 5 }, { attempt: 2 });
 * await charging(ctx.input, ctx); // the function of a handler
 * console.log(ctx.sent.length);
 */
export async function fakeContext<S extends TaskShape, Tx = never, C = never>(
  task: Task<S>,
  input: InputOf<Task<S>>,
  options: FakeContextOptions<Tx, C> = {},
): Promise<FakeContext<S, Tx, C>> {
  const composed = await compose({ task, input, options: sendOptionsOf(options) });
  const envelope = envelopeOf(composed);
  const call = inputFromCall(task.contract, decodeBody(envelope.body));
  const parsed: unknown = await parseInput(task.name, task.contract, call);
  const [sent, checkpoints]: [FakeSent[], C[]] = [[], []];
  const draining = new AbortController();
  const stop = new RunStop(draining.signal);
  const { log = silentLogger } = options;
  const runtime = { clock, random: systemRandom, faultPoint: noFaults, emit: noEvents, log };
  const ledger = {
    checkpoint: async (_: unknown, _seq: number, data: Uint8Array): Promise<StepStatus> => {
      checkpoints.push(decodeJson(toText(data)) as C);
      return 'ok';
    },
    raiseEpoch: async () => ({ status: 'stale' as const }),
  };
  const handler = defineHandler(task, () => undefined as never, originOf(options, sent));
  const begun = begunOf(envelope, options);
  const start = { task: begun, handler, input: parsed, stop, ledger, effect: null };
  const { context } = new RunScope(start, { runtime });
  const more = { sent, checkpoints, abort: () => stop.stop('lost'), drain: () => draining.abort() };
  return Object.assign(context as TaskContext<S, Tx, C>, more);
}

async function compose(call: TaskCall): Promise<NewTask> {
  const nowMs = clock.now();
  const newId = (): string => uuidv7(nowMs);
  const rest = { maxPayloadBytes: LARGEST, keyring: NO_KEYS, redact: null, parent: null };
  return await composeTask(call, ALONE, { nowMs, newId, ...rest });
}

/** What `ctx.transaction` and `ctx.send` lead to. */
function originOf(
  { tx = refusingTx }: FakeContextOptions<unknown, unknown>,
  sent: FakeSent[],
): HandlerOrigin {
  return {
    door: () => ({
      locksTask: true,
      fence: async () => undefined,
      pass: async (_run, _step, fn) => await fn(tx()),
    }),
    sendInside: async (_tx, task, input, options) => {
      const { id, name } = await compose({ task, input, options });
      sent.push({ id, name, input, options });
      return id;
    },
  };
}

function begunOf(
  envelope: Envelope,
  { attempt = 1, resurrections: crashes = 0, lastCheckpoint }: FakeContextOptions<unknown, unknown>,
): BegunTask {
  return {
    id: envelope.id,
    epoch: attempt + crashes,
    run: 'fake',
    envelope,
    failures: attempt - 1,
    crashes,
    isSuspect: false,
    checkpoint: lastCheckpoint === undefined ? null : toBytes(encodeJson(lastCheckpoint)),
    checkpointSeq: 0,
  };
}

function sendOptionsOf(options: FakeContextOptions<unknown, unknown>): SendOptions {
  const { id, headers, context, schedule, deadline } = options;
  const all = {
    ...headers,
    ...(context === undefined ? {} : contextHeaders(context)),
    ...(schedule === undefined ? {} : headersOf(schedule)),
  };
  return {
    ...(id === undefined ? {} : { id }),
    ...(deadline === undefined ? {} : { deadline }),
    ...(Object.keys(all).length === 0 ? {} : { headers: all }),
  };
}

const headersOf = ({ name, slot }: NonNullable<FakeContextOptions<never, never>['schedule']>) => ({
  [SCHEDULE_HEADER]: name,
  [SLOT_HEADER]: slot.toISOString(),
});
