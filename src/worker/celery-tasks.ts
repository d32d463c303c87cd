import { task } from '../task/define-task.ts';
import type { Envelope } from '../task/envelope.ts';
import { decodeBody, inputFromCall, parseInput } from '../task/input.ts';
import { unchecked } from '../task/standard-schema.ts';
import { asVerdict } from '../task/verdict.ts';
import type { TaskContext } from './context.ts';
import type { HandlerOrigin } from './effects/door.ts';
import { defineHandler, type Abilities, type Handler } from './handler.ts';

/**
 * Tasks that every Celery worker has, so that Python sends them without defining them. Some are run here: what `Task.replace`
 * needs, and `Task.map` and `Task.starmap` of tasks that have a handler here. The others end as a failure with the reason.
 */

interface Call {
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
}

const refuse = (): Promise<never> => Promise.reject(new Error('not for tasks of Celery itself'));
const ORIGIN: HandlerOrigin = {
  door: () => ({ locksTask: false, pass: refuse, fence: refuse }),
  sendInside: refuse,
};

function contractOf(name: string) {
  return task(name, {
    args: unchecked<unknown[]>(),
    kwargs: unchecked<Record<string, unknown>>(),
    result: unchecked<unknown>(),
  });
}

function builtin(name: string, run: (call: Call) => unknown): Handler {
  return defineHandler(
    contractOf(name),
    { retry: { maxAttempts: 1 }, run: input => run(input as Call) },
    ORIGIN,
  );
}

function thrown(name: string, message: string): Error {
  return Object.assign(new Error(message), { name, stack: '' });
}

const refused = (name: string, instead: string): Handler =>
  builtin(name, () => {
    throw thrown('NotImplementedError', `${name} is not run by a TypeScript worker: ${instead}`);
  });

/** Celery's way to end a group that replaced a task: the results, or one of them. */
function accumulate({ args, kwargs }: Call): unknown {
  const index = kwargs['index'] ?? null;
  if (index === null) return args;
  const value: unknown = args.at(Number(index));
  if (value === undefined) throw thrown('IndexError', 'tuple index out of range');
  return value;
}

const MAPS: ReadonlySet<string> = new Set(['celery.map', 'celery.starmap']);
const ALWAYS: readonly Handler[] = [
  builtin('celery.accumulate', accumulate),
  ...[...MAPS].map(name =>
    builtin(name, call => {
      throw thrown('NotRegistered', `no handler for ${innerName(call) ?? 'the task'} here`);
    }),
  ),
  refused('celery.chunks', 'send the chunks with apply_async, which makes a group of them'),
  refused('celery.group', 'send the group with apply_async'),
  refused('celery.chord', 'send the chord with apply_async'),
  refused('celery.chain', 'a chain is not a real task, send it with apply_async'),
];
/** Results in Redis expire by themselves. Of any other backend only Python knows what to clean up. */
const CLEANUP = builtin('celery.backend_cleanup', () => null);

export const BUILTIN_NAMES: ReadonlySet<string> = new Set(
  [...ALWAYS, CLEANUP].map(handler => handler.task.name),
);

/** The handlers of a worker that gets messages from Celery; a handler of your own comes first. */
export function withBuiltins(
  handlers: ReadonlyMap<string, Handler>,
  { cleansUp }: { readonly cleansUp: boolean },
): ReadonlyMap<string, Handler> {
  const own = cleansUp ? [...ALWAYS, CLEANUP] : ALWAYS;
  return new Map([...own.map(one => [one.task.name, one] as const), ...handlers]);
}

/** The signature and the items, which may be arguments of either kind. What comes before the names is no argument of a map. */
function partsOf({ args, kwargs }: Call): { readonly inner: unknown; readonly items: unknown } {
  return { inner: kwargs['task'] ?? args[0], items: kwargs['it'] ?? args[1] };
}

function innerName(call: Call): string | null {
  const { inner } = partsOf(call);
  const name = (inner as { readonly task?: unknown } | null | undefined)?.task;
  return typeof name === 'string' ? name : null;
}

/** False: it maps a task that this worker does not have. Another one, or one of Python, may have it. */
export function canMap({ name, body }: Envelope, runnable: Abilities['runnable']): boolean {
  if (!MAPS.has(name)) return true;
  try {
    const inner = innerName(decodeBody(body));
    return inner === null || Object.hasOwn(runnable, inner);
  } catch {
    // Its run finds out why it cannot be read.
    return true;
  }
}

/** What runs `celery.map` and `celery.starmap`: the handler of the task inside, for one item after the other. */
export function mappingHandler(
  { name, body }: Envelope,
  handlers: ReadonlyMap<string, Handler>,
): Handler | undefined {
  const handler = handlers.get(name);
  if (handler === undefined || !MAPS.has(name) || handler.origin !== ORIGIN) return handler;
  const inner = handlers.get(innerNameIn(body) ?? '');
  if (inner === undefined) return handler;
  const run = (input: unknown, ctx: TaskContext): Promise<unknown> =>
    runEach(inner, name === 'celery.starmap', [input as Call, ctx]);
  return { ...handler, run, origin: inner.origin };
}

function innerNameIn(body: Uint8Array): string | null {
  try {
    return innerName(decodeBody(body));
  } catch {
    return null;
  }
}

async function runEach(
  inner: Handler,
  isStar: boolean,
  [call, ctx]: readonly [Call, TaskContext],
): Promise<unknown> {
  const { name, contract } = inner.task;
  refuseUnmappable(inner);
  const { items } = partsOf(call);
  if (!Array.isArray(items)) throw thrown('TypeError', 'the items of a map are no list');
  const results: unknown[] = [];
  for (const [index, item] of (items as unknown[]).entries()) {
    ctx.signal.throwIfAborted();
    const args: unknown = isStar ? item : [item];
    if (!Array.isArray(args)) throw thrown('TypeError', `item ${index} is no list of arguments`);
    const input: unknown = await parseInput(
      name,
      contract,
      inputFromCall(contract, { args, kwargs: {} }),
    );
    const value: unknown = await inner.run(input, contextOf(ctx, index, input));
    // A map has one end, and a verdict is one.
    if (asVerdict(value) !== null) return value;
    results.push(contract.result === null ? null : (value ?? null));
  }
  return results;
}

/** What promises something for each of its runs cannot be one of many in a run. */
function refuseUnmappable({ mode, fence, task: { name, contract } }: Handler): void {
  const why =
    mode !== 'inline'
      ? 'runs in an isolate'
      : contract.idempotent !== null
        ? 'is idempotent'
        : fence === 'start'
          ? 'has a fence'
          : null;
  if (why !== null)
    throw thrown('NotImplementedError', `${name} cannot be mapped: it ${why}. Send a group of it`);
}

/** The context of one item: its steps have names of their own, and checkpoints are for the task as a whole. */
function contextOf(ctx: TaskContext, index: number, input: unknown): TaskContext {
  const own = {
    input,
    transaction: <T>(fn: (tx: unknown) => Promise<T>, options?: { readonly step?: string }) =>
      ctx.transaction(fn, { step: `${index}:${options?.step ?? 'main'}` }),
    checkpoint: () =>
      Promise.reject(thrown('NotImplementedError', 'a mapped task has no checkpoints')),
    lastCheckpoint: undefined,
  };
  const members: ReadonlySet<PropertyKey> = new Set(Object.keys(own));
  return new Proxy(ctx, {
    get: (target, key): unknown => Reflect.get(members.has(key) ? own : target, key) as unknown,
  });
}
