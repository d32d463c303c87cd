import { sleep } from '../../runtime/clock.ts';
import type { RunSet } from './run-set.ts';
import type { WorkerDeps } from '../worker-deps.ts';

/** How long a drain waits for the store to take back what was not finished. */
const RELEASE_GRACE_MS = 5_000;

/** Waits for all current runs, however they end. */
export async function untilEnded(runs: RunSet): Promise<void> {
  await Promise.all([...runs].map(run => run.finished.catch(() => undefined)));
}

/**
 * Gives runs the shutdown timeout to end, and releases those that have not; returns how many were given back, including
 * those that gave themselves back. `given` is what else goes back meanwhile.
 */
export async function drainRuns(
  runs: RunSet,
  given: Promise<void>,
  { runtime, settings, forceStop }: Pick<WorkerDeps, 'runtime' | 'settings' | 'forceStop'>,
): Promise<number> {
  const { clock, faultPoint } = runtime;
  const all = [...runs];
  const grace = new AbortController();
  const signal = forceStop ? AbortSignal.any([grace.signal, forceStop]) : grace.signal;
  await Promise.race([
    untilEnded(runs).then(() => grace.abort()),
    sleep(clock, settings.shutdownTimeoutMs, signal),
  ]);
  await faultPoint('worker.drain-before-release');
  for (const run of runs) run.stop('release');
  // What the broker does not take back now it takes back when its connection is closed.
  await Promise.race([Promise.all([untilEnded(runs), given]), sleep(clock, RELEASE_GRACE_MS)]);
  return all.filter(run => run.isGivenBack).length;
}
