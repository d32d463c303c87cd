import { isUnavailable } from '../../errors/error.ts';
import type { BeginReply, BeginRequest, WorkerLedger } from '../../ledger/ledger.ts';
import { RetryPace } from '../../runtime/retry-pace.ts';
import type { Runtime } from '../../runtime/runtime.ts';

/** Between two calls of the main loop to a failing store; the maximum is how late its recovery is noticed. */
const STORE_RETRY = { baseMs: 250, maxMs: 2_000 };
/** After this a worker stops retrying: the messages are kept or given back. */
const KEEP_UNBEGUN_MS = 10_000;

export function makeStorePace(runtime: Runtime): RetryPace {
  return new RetryPace(runtime, STORE_RETRY, {
    failing: 'the store cannot be used; nothing is begun',
    over: 'the store can be used again',
  });
}

export interface BeginLimits {
  readonly signal: AbortSignal;
  /** False: the incarnation that made the request is gone. */
  readonly isOurs: () => boolean;
  /** Shared by all calls of the worker: an outage outlasts a single call. */
  readonly pace: RetryPace;
}

export interface BeginDeps {
  readonly ledger: Pick<WorkerLedger, 'begin'>;
  readonly runtime: Runtime;
}

/**
 * Repeats the call after a lost reply: the request names its run, so it gets the same tasks again. An error: the call has
 * given up; null: the caller needs no answer any more.
 */
export async function beginWithRetries(
  request: BeginRequest,
  { ledger, runtime }: BeginDeps,
  { signal, isOurs, pace }: BeginLimits,
): Promise<BeginReply | Error | null> {
  const { clock } = runtime;
  const startedAt = clock.monotonic();
  for (let isFirst = true; ; isFirst = false) {
    try {
      const reply = await ledger.begin({ ...request, isFirst });
      pace.succeeded();
      return reply;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      await pace.wait(error, signal);
      // Tasks that were begun without our knowing are found by the next beat and released.
      if (signal.aborted || !isOurs()) return null;
      if (clock.monotonic() - startedAt > KEEP_UNBEGUN_MS) return error as Error;
    }
  }
}
