import { ok, problem, spoken, type Check, type CheckLimits } from '../telemetry/checkup.ts';

/** What was found in a ledger; `workers` are alive, and each of them recovers what others lost. */
export interface RecoveryFigures {
  readonly lost: { readonly what: string; readonly count: number };
  readonly followUps: number;
  readonly workers: number;
}

/** For how long something must have waited to be a problem: resurrectors leave no trace but what they recover. */
export function recoveryLimitMs(
  workers: number,
  { maxOrphanMs, maxUnreapedMs }: CheckLimits,
): number {
  return workers === 0 ? Math.min(maxOrphanMs, maxUnreapedMs) : maxOrphanMs;
}

/** Tasks of lost workers and follow-ups that any reaper would have taken up long ago. */
export function recoveryCheck(figures: RecoveryFigures, limits: CheckLimits): Check {
  const { lost, followUps, workers } = figures;
  const details = { orphans: lost.count, followUps, workers };
  if (lost.count + followUps === 0) return ok('recovery', 'nothing waits for recovery', details);
  const waited = spoken(recoveryLimitMs(workers, limits));
  const waits = `${lost.count} ${lost.what} and ${followUps} follow-ups wait for longer than ${waited}`;
  const why = workers === 0 ? ': no worker is alive, and no resurrector takes them up' : '';
  const advice = 'Start a resurrector or a worker: npx outlast resurrector.';
  return problem('recovery', `${waits}${why}`, advice, details);
}
