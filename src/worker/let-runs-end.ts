import { sleep } from '../runtime/clock.ts';
import type { RunSet } from './run-set.ts';
import type { WorkerDeps } from './worker-deps.ts';

/** How long a drain waits for the store to take back what was not finished. */
const RELEASE_PATIENCE_MS = 5_000;

/** Waits for all that run now, however they end. */
export async function untilEnded(runs: RunSet): Promise<void> {
  await Promise.all([...runs].map(run => run.finished.catch(() => undefined)));
}

/**
 * Gives runs the time of a shutdown to end, and releases those that have not; how many were given back, also by
 * themselves. `given` is what else goes back meanwhile.
 */
export async function letRunsEnd(
  runs: RunSet,
  given: Promise<void>,
  { runtime, settings, hurry }: Pick<WorkerDeps, 'runtime' | 'settings' | 'hurry'>,
): Promise<number> {
  const { clock, faultPoint } = runtime;
  const all = [...runs];
  const patience = new AbortController();
  const signal = hurry ? AbortSignal.any([patience.signal, hurry]) : patience.signal;
  await Promise.race([
    untilEnded(runs).then(() => patience.abort()),
    sleep(clock, settings.shutdownTimeoutMs, signal),
  ]);
  await faultPoint('worker.drain-before-release');
  for (const run of runs) run.stop('release');
  // What the broker does not take back now it takes when it is closed.
  await Promise.race([Promise.all([untilEnded(runs), given]), sleep(clock, RELEASE_PATIENCE_MS)]);
  return all.filter(run => run.isGivenBack).length;
}
