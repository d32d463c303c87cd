import { isUnavailable } from '../errors/error.ts';
import type { BegunTask, Ledger } from '../ledger/ledger.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';

const RETRY_MS = 250;
/** A store that has just lost its memory may still be starting; whoever is leaving does not wait for it. */
const PATIENCE_MS = 30_000;

/**
 * For a run that owns nothing any more. Mostly others have its task; but a ledger that lost its memory may know of nobody,
 * and where the broker's copy is gone too these are the last bytes of it.
 */
export async function rescueRun(
  { id, epoch, envelope }: BegunTask,
  leaving: AbortSignal,
  { ledger, runtime }: { readonly ledger: Pick<Ledger, 'rescue'>; readonly runtime: Runtime },
): Promise<void> {
  const { clock, log } = runtime;
  const endsAt = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    try {
      return await ledger.rescue?.([{ epoch, envelope }]);
    } catch (error) {
      if (!isUnavailable(error) || leaving.aborted || clock.monotonic() >= endsAt) {
        return log.error(
          { error, task: id },
          'it is not known whether the ledger still has this task',
        );
      }
      await sleep(clock, RETRY_MS, leaving);
    }
  }
}
