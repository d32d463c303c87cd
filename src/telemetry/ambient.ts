import { AsyncLocalStorage } from 'node:async_hooks';
import {
  boundedContext,
  CONTEXT_HEADER,
  contextIn,
  NO_CONTEXT,
  type ContextValues,
} from '../task/context-headers.ts';
import type { Envelope } from '../task/envelope.ts';
import { markedHeaders } from '../task/read-options.ts';

/** What surrounds the code that runs here. */
interface Ambient {
  /** The context of the running task, as `currentTask()` returns it; null outside of a handler. */
  readonly task: object | null;
  readonly values: ContextValues;
  /** The trace that a request came with, as headers. Missing: none, or another version of the package has put this here. */
  readonly trace?: TraceValues;
}

type TraceValues = Readonly<Record<string, string>>;
const NO_TRACE: TraceValues = Object.freeze({});

// One for the whole process: a library that bundles its own copy of the package must find the same.
const STORAGE_KEY = Symbol.for('outlast.ambient');
const shared = globalThis as { [STORAGE_KEY]?: AsyncLocalStorage<Ambient> };
const storage = (shared[STORAGE_KEY] ??= new AsyncLocalStorage<Ambient>());

/** Runs a handler: nothing of what surrounded its worker reaches it. */
export function withinTask<T>(task: object, values: ContextValues, fn: () => T): T {
  return storage.run({ task, values }, fn);
}

/** Whatever `withinTask` was given; null outside of one. */
export const ambientTask = (): object | null => storage.getStore()?.task ?? null;

/**
 * Runs `fn` with these values as its context, beside those that are there already. What is sent inside can carry them: see
 * `context` in the configuration.
 *
 * @example
 * app.use((req, _res, next) => withContext({ requestId: req.id }, next));
 */
export function withContext<T>(values: Readonly<Record<string, unknown>>, fn: () => T): T {
  const around = storage.getStore();
  return withinRequest({ values, trace: around?.trace ?? NO_TRACE }, fn);
}

/** The same for a request that is part of a trace. */
export function withinRequest<T>(
  { values, trace }: { readonly values: object; readonly trace: TraceValues },
  fn: () => T,
): T {
  const around = storage.getStore();
  const all = boundedContext({ ...around?.values, ...values });
  return storage.run({ task: around?.task ?? null, values: all, trace }, fn);
}

/** The trace that the request came with in which this code runs; never inside of a task. */
export const ambientTrace = (): TraceValues => storage.getStore()?.trace ?? NO_TRACE;

/**
 * The context of the code that runs here: in a handler the one its task was sent with.
 *
 * @example
 * logger.info({ ...currentContext() }, 'charging');
 */
export function currentContext(): ContextValues {
  return storage.getStore()?.values ?? NO_CONTEXT;
}

/** Runs `fn` in the context of a task, so that what it emits and logs carries that. */
export function inContextOf<T>(envelope: Pick<Envelope, 'options'>, fn: () => T): T {
  const values = contextOf(envelope);
  if (values === NO_CONTEXT && currentContext() === NO_CONTEXT) return fn();
  return storage.run({ task: ambientTask(), values, trace: ambientTrace() }, fn);
}

const MARK = `"${CONTEXT_HEADER}":`;

function contextOf(envelope: Pick<Envelope, 'options'>): ContextValues {
  const headers = markedHeaders(envelope, MARK);
  return headers === null ? NO_CONTEXT : contextIn(headers);
}
