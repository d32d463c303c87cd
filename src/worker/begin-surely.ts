import { isUnavailable } from '../errors/error.ts';
import type { BeginReply, BeginRequest, Ledger } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';

/** Pause after the store failed a call of the main loop. */
export const STORE_RETRY_MS = 250;
/** A message not begun for this long is given back: another worker may reach the ledger. */
const KEEP_UNBEGUN_MS = 10_000;

export interface BeginLimits {
  readonly signal: AbortSignal;
  /** False: the incarnation that asks is gone. */
  readonly isOurs: () => boolean;
}

/** Repeats the call after a lost reply: it names its run, so it gets what it was given before. Null: it has given up. */
export async function beginSurely(
  request: BeginRequest,
  { ledger, runtime }: { readonly ledger: Ledger; readonly runtime: Runtime },
  { signal, isOurs }: BeginLimits,
): Promise<BeginReply | null> {
  const { clock, log } = runtime;
  const startedAt = clock.monotonic();
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await ledger.begin({ ...request, isFirst });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      log.warn({ error }, 'begin failed');
      // What landed without our knowing is found by the next beat and released.
      if (signal.aborted || !isOurs() || clock.monotonic() - startedAt > KEEP_UNBEGUN_MS)
        return null;
      await sleep(clock, STORE_RETRY_MS, signal);
    }
  }
}
