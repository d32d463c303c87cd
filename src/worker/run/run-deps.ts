import { NO_KEYS } from '../../task/keyring.ts';
import { acceptAgain } from '../intake/ledger-trust.ts';
import { BrokerAnswers } from '../intake/broker-answers.ts';
import { Checkpoints } from '../effects/checkpoints.ts';
import { FollowUpSender } from './follow-up-sender.ts';
import type { Outages } from './outages.ts';
import type { RunDeps } from './run.ts';
import { createSettler } from './settler.ts';
import type { WorkerDeps } from '../worker-deps.ts';

/** The state of an incarnation and its worker that runs depend on. */
export interface IncarnationState {
  readonly isGone: () => boolean;
  readonly isLeaseOver: () => boolean;
  readonly outages: Outages;
}

/**
 * What the runs of one incarnation share. Settling steps belong to it: those of a closed incarnation are given up.
 */
export function createRunDeps(deps: WorkerDeps, incarnation: IncarnationState): RunDeps {
  const { ledger, broker, runtime, settings } = deps;
  const { isGone, isLeaseOver, outages } = incarnation;
  const { keyring = NO_KEYS } = deps;
  const { dedupWindowMs, remembersSigned } = settings;
  // Once, and not for every run.
  const acceptDeps = { ...deps, reads: deps.keys.reads };
  const large = deps.largeCheckpoints ?? { store: null, maxBytes: 0 };
  return {
    ...deps,
    checkpoints: new Checkpoints({ ...large, ledger, runtime }),
    isLeaseOver,
    outages,
    followUps: new FollowUpSender(deps),
    settler: createSettler(ledger, runtime, isGone),
    answers: new BrokerAnswers(broker, runtime.log),
    acceptAgain: task => acceptAgain(task, acceptDeps),
    dedupMsOf: envelope =>
      remembersSigned === true
        ? keyring.dedupMsOf(envelope, dedupWindowMs, runtime.clock.now())
        : dedupWindowMs,
    resultMs: settings.resultTtlMs,
    redact: deps.redact ?? null,
    ...(settings.runsAt ? { runsAt: settings.runsAt } : {}),
  };
}
