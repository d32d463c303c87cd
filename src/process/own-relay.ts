import { Admission } from '../admission/admission.ts';
import { LimitBook } from '../admission/limits.ts';
import type { ResolvedConfig } from '../config/config.ts';
import type { Context } from '../context/context.ts';
import { Relay } from '../relay/relay.ts';
import { sleep } from '../runtime/runtime.ts';

/** After an error that is no outage: the worker goes on, and so must the moving of rows. */
const AGAIN_MS = 5_000;

/** No broker stands between outbox and ledger: workers move the rows themselves, and no relay has to be deployed. */
export const movesItself = ({ broker }: Pick<ResolvedConfig, 'broker'>): boolean => broker === null;

/** The relay of this process while it runs, for its figures. */
export interface OwnRelay {
  current: Pick<Relay, 'status'> | null;
}

/**
 * Does the work of a worker, and meanwhile the work of a relay where there is no broker. `own`: its figures are wanted, so it samples
 * the backlog as a relay does; null: they are not.
 */
export async function besideOwnRelay<T>(
  context: Context,
  own: OwnRelay | null,
  work: () => Promise<T>,
): Promise<T> {
  if (!movesItself(context.config)) return await work();
  const ended = new AbortController();
  const moving = moveRows(context, own, ended.signal);
  try {
    return await work();
  } finally {
    ended.abort();
    await moving;
  }
}

async function moveRows(
  context: Context,
  own: OwnRelay | null,
  signal: AbortSignal,
): Promise<void> {
  const { config, runtime } = context;
  while (!signal.aborted) {
    try {
      const { outbox, broker, admission: store, outboxReads, ledgerReads } = await context.stores();
      const admission = new Admission({ store, book: new LimitBook(config.admission), runtime });
      const deps = { outbox, broker, admission, runtime, settings: config.relay };
      const sampled = own === null ? { reads: null } : { reads: outboxReads, letters: ledgerReads };
      const relay = new Relay({ ...deps, ...sampled });
      if (own !== null) own.current = relay;
      await relay.run(signal);
    } catch (error) {
      runtime.log.error({ error }, 'the rows of the outbox cannot be moved; trying again');
      await sleep(runtime.clock, AGAIN_MS, signal);
    } finally {
      if (own !== null) own.current = null;
    }
  }
}
