import { isUnavailable } from '../../errors/error.ts';
import type { BegunTask, Ledger } from '../../ledger/ledger.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { type Runtime, sleep } from '../../runtime/runtime.ts';

const RETRY: BackoffPolicy = { baseMs: 250, maxMs: 2_000, jitter: 'full' };
/** A store that has just lost its data may still be starting; a worker that is leaving does not wait for it. */
const GRACE_MS = 30_000;

/**
 * For a run that does not own its task any more. Mostly another run owns it; but a ledger that lost its data may know no
 * owner, and if the broker's copy is gone too these are the last bytes of the task.
 */
export async function rescueRun(
  { id, epoch, envelope }: BegunTask,
  leaving: AbortSignal,
  { ledger, runtime }: { readonly ledger: Pick<Ledger, 'rescue'>; readonly runtime: Runtime },
): Promise<void> {
  const { clock, log, random } = runtime;
  const endsAt = clock.monotonic() + GRACE_MS;
  for (let tries = 0; ; tries++) {
    try {
      return await ledger.rescue?.([{ epoch, envelope }]);
    } catch (error) {
      if (!isUnavailable(error) || leaving.aborted || clock.monotonic() >= endsAt) {
        return log.error(
          { error, task: id },
          'it is not known whether the ledger still has this task',
        );
      }
      await sleep(clock, backoffMs(RETRY, tries, 0.5 + random.next() / 2), leaving);
    }
  }
}
