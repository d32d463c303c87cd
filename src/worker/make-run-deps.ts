import { BrokerAnswers } from './broker-answers.ts';
import { Checkpoints } from './checkpoints.ts';
import type { RunDeps } from './run.ts';
import { createSettler } from './settler.ts';
import type { WorkerDeps } from './worker-deps.ts';

/** What an incarnation knows of its own future. */
export interface Outlook {
  readonly isHopeless: () => boolean;
  readonly isLeaseOver: () => boolean;
}

/**
 * What the runs of one incarnation share. Settling steps belong to it: those of a closed one are hopeless, not late.
 */
export function makeRunDeps(deps: WorkerDeps, { isHopeless, isLeaseOver }: Outlook): RunDeps {
  const { ledger, broker, runtime, settings } = deps;
  const large = deps.largeCheckpoints ?? { store: null, maxBytes: 0 };
  return {
    ...deps,
    checkpoints: new Checkpoints({ ...large, ledger, runtime }),
    isLeaseOver,
    settler: createSettler(ledger, runtime, isHopeless),
    answers: new BrokerAnswers(broker, runtime.log),
    dedupMs: settings.dedupWindowMs,
    resultMs: settings.resultTtlMs,
    redact: deps.redact ?? null,
    ...(settings.runsAt ? { runsAt: settings.runsAt } : {}),
  };
}
