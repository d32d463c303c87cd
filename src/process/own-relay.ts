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

/** Does the work of a worker, and meanwhile the work of a relay where there is no broker. */
export async function besideOwnRelay<T>(context: Context, work: () => Promise<T>): Promise<T> {
  if (!movesItself(context.config)) return await work();
  const ended = new AbortController();
  const moving = moveRows(context, ended.signal);
  try {
    return await work();
  } finally {
    ended.abort();
    await moving;
  }
}

async function moveRows(context: Context, signal: AbortSignal): Promise<void> {
  const { config, runtime } = context;
  while (!signal.aborted) {
    try {
      const { outbox, broker, admission: store } = await context.stores();
      const admission = new Admission({ store, book: new LimitBook(config.admission), runtime });
      const deps = { outbox, broker, admission, runtime, settings: config.relay };
      await new Relay({ ...deps, reads: null }).run(signal);
    } catch (error) {
      runtime.log.error({ error }, 'the rows of the outbox cannot be moved; trying again');
      await sleep(runtime.clock, AGAIN_MS, signal);
    }
  }
}
