import type { Logger } from '../telemetry/logger.ts';
import type { RunTrace, SendTrace, Traced, TracedTask, Traces } from '../telemetry/traces.ts';
import { inTrace, NO_HEADERS, type Headers } from './span-context.ts';

export const NOT_SENT: SendTrace = { headers: NO_HEADERS, wrote: () => undefined };
export const NOT_RUN: RunTrace = {
  headers: NO_HEADERS,
  isolateHeaders: null,
  started: () => undefined,
  within: fn => fn(),
  ended: () => undefined,
  settle: fn => fn(),
};

/** What a function that is traced has done, when something around it throws. */
type Ran<T> = { readonly value: T } | { readonly error: unknown };

/**
 * Samplers, processors and context managers are code of the application, and may throw wherever a span begins or ends. Whatever
 * they do, a traced function is called once, and its end is the one that counts. It is logged once.
 */
class Guard {
  readonly #log: Logger;
  #isLogged = false;

  constructor(log: Logger) {
    this.#log = log;
  }

  try<T>(step: () => T, otherwise: T): T {
    try {
      return step();
    } catch (error) {
      this.#report(error);
      return otherwise;
    }
  }

  around<T>(trace: (fn: () => T) => T, fn: () => T): T {
    const ran: { end: Ran<T> | null } = { end: null };
    const once = (): T => {
      try {
        const value = fn();
        ran.end = { value };
        return value;
      } catch (error) {
        ran.end = { error };
        throw error;
      }
    };
    let traced: T;
    try {
      traced = trace(once);
    } catch (error) {
      return this.#endOf(ran.end, error, fn);
    }
    if (!(traced instanceof Promise)) return traced;
    return traced.catch((error: unknown) => this.#endOf(ran.end, error, fn)) as T;
  }

  #endOf<T>(end: Ran<T> | null, error: unknown, fn: () => T): T {
    if (end !== null && 'error' in end) throw end.error;
    if (end === null) {
      this.#report(error);
      return fn();
    }
    // Its own rejection is what came out here, unless it ended well.
    if (end.value instanceof Promise)
      void end.value.then(
        () => this.#report(error),
        () => undefined,
      );
    else this.#report(error);
    return end.value;
  }

  #report(error: unknown): void {
    if (this.#isLogged) return;
    this.#isLogged = true;
    this.#log.error({ error }, 'what traces throws; tasks go on without its spans');
  }
}

export function guardTraces(traces: Traces, log: Logger): Traces {
  const guard = new Guard(log);
  return {
    create: fn => {
      const state: { trace: SendTrace } = { trace: NOT_SENT };
      return guard.around(
        run =>
          traces.create(trace => {
            state.trace = guardedSend(trace, guard);
            return run();
          }),
        () => fn(state.trace),
      );
    },
    publish: <A extends { readonly status: string }>(
      messages: readonly Traced[],
      fn: () => Promise<readonly A[]>,
    ) => guard.around(run => traces.publish(messages, run), fn),
    begun: (task: TracedTask) =>
      guardedRun(
        guard.try(() => traces.begun(task), NOT_RUN),
        guard,
      ),
  };
}

const guardedSend = (trace: SendTrace, guard: Guard): SendTrace => ({
  headers: trace.headers,
  wrote: tasks => guard.try(() => trace.wrote(tasks), undefined),
});

const guardedRun = (trace: RunTrace, guard: Guard): RunTrace => ({
  get headers() {
    return guard.try(() => trace.headers, NO_HEADERS);
  },
  get isolateHeaders() {
    return guard.try(() => trace.isolateHeaders, null);
  },
  started: () => guard.try(() => trace.started(), undefined),
  within: fn => guard.around(run => trace.within(run), fn),
  ended: end => guard.try(() => trace.ended(end), undefined),
  settle: fn => guard.around(run => trace.settle(run), fn),
});

/** What an isolate does with the headers of its worker. */
export function guardedInTrace(log: Logger): <T>(headers: Headers, fn: () => T) => T {
  const guard = new Guard(log);
  return (headers, fn) => guard.around(run => inTrace(headers, run), fn);
}
