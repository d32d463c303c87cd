import { beginAll, partsOf } from '../../ledger/batch-limits.ts';
import type { BeginReply, BeginRequest, WorkerLedger } from '../../ledger/ledger.ts';
import { isUnavailable } from '../../errors/error.ts';
import { RetryPace } from '../../runtime/backoff.ts';
import type { Runtime } from '../../runtime/runtime.ts';

/** An error: the call has given up. Null: the caller needs no answer any more. */
type Asked = BeginReply | Error | null;

/** With the indexes of messages that the store can never take, and why. */
type IsolatedReply = BeginReply & { readonly unstorable: ReadonlyMap<number, unknown> };
export type OpenReply = Extract<IsolatedReply, { readonly status: 'open' }>;

/**
 * Begins a batch, and if the store refuses all of it finds the message that is the cause: it begins the halves separately,
 * down to the one message that is refused alone. That one is left out, and reported with its error; otherwise it would end
 * this process, and the next one that it is delivered to.
 */
export async function beginOneByOne(
  request: BeginRequest,
  deps: BeginDeps,
  limits: BeginLimits,
): Promise<IsolatedReply | Error | null> {
  const unstorable = new Map<number, unknown>();
  const begin = async (part: BeginRequest, from: number): Promise<Asked> => {
    try {
      return await beginWithRetries(part, deps, limits);
    } catch (error) {
      const { length } = part.messages;
      if (length === 0) throw error;
      deps.runtime.log.warn(
        { error, messages: length },
        'the store refuses messages; parting them',
      );
      if (length === 1) {
        unstorable.set(from, error);
        return await without(part, rest => beginWithRetries(rest, deps, limits));
      }
      const half = Math.ceil(length / 2);
      let at = from;
      return await beginBoth(partsOf(part, [half, length - half]), some => {
        const index = at;
        at += some.messages.length;
        return begin(some, index);
      });
    }
  };
  const reply = await begin(request, 0);
  return isReply(reply) ? { ...reply, unstorable } : reply;
}

/** The rest of a request whose message is refused: it may still ask for waiting tasks. */
async function without(
  part: BeginRequest,
  begin: (rest: BeginRequest) => Promise<Asked>,
): Promise<Asked> {
  const reply = await begin({ ...part, messages: [], ...(part.tags ? { tags: [] } : {}) });
  // A filler for the refused message, so that the answers of the others keep their indexes.
  return isReply(reply) && reply.status === 'open' ? { ...reply, answers: ['held'] } : reply;
}

/** Returns the first reply that is not an answer, if one of them is. */
async function beginBoth(
  parts: readonly BeginRequest[],
  begin: (part: BeginRequest) => Promise<Asked>,
): Promise<Asked> {
  let unanswered: Error | null | undefined;
  const reply = await beginAll(parts, async part => {
    const one = await begin(part);
    if (isReply(one)) return one;
    unanswered = one;
    return { status: 'closed' };
  });
  return unanswered === undefined ? reply : unanswered;
}

const isReply = (asked: Asked): asked is BeginReply => asked !== null && !(asked instanceof Error);

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
