import type { Broker } from '../broker/broker.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { Ledger, RunsAt } from '../ledger/ledger.ts';
import type { Redact } from '../task/redact.ts';
import type { KeyDeps } from './claim-key.ts';
import type { CheckpointsParts } from './checkpoints.ts';
import type { ExecuteDeps } from './execute.ts';
import type { Heart } from './heart.ts';
import type { RunDeps } from './run.ts';
import type { RunObserver } from './run-observer.ts';

export interface WorkerSettings {
  /** Queue names with their weights. */
  readonly queues: Readonly<Record<string, number>>;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly idleTimeMs: number;
  readonly shutdownTimeoutMs: number;
  readonly dedupWindowMs: number;
  readonly resultTtlMs: number;
  /** When the broker's copy of a begun task is let go: after its run is settled, or as soon as the ledger has it. */
  readonly ackOn: 'commit' | 'begin';
  /** Whoever waits for a result is told when its task begins, and that it is here. Left out: nobody is. */
  readonly runsAt?: RunsAt;
  /** The operating-system process, as its supervisor calls it. */
  readonly process: string;
  readonly host: string;
  readonly pid: number;
}

export interface WorkerDeps extends ExecuteDeps, Pick<RunDeps, 'results' | 'gate'> {
  readonly ledger: Ledger;
  readonly broker: Broker;
  readonly heart: Heart;
  readonly keys: KeyDeps;
  /** Left out: people see the arguments of follow-ups themselves. */
  readonly redact?: Redact | null;
  readonly observer?: RunObserver;
  /** What operators want. Left out: nobody can pause its queues or ask it to end. */
  readonly control?: ControlStore;
  /** Told when an operator asks this worker to end. */
  readonly onDrainAsked?: () => void;
  /** Aborts: a drain waits for nothing more, and what still runs is given back at once. Left out: nobody is in a hurry. */
  readonly hurry?: AbortSignal;
  /** Where progress goes that is too large for the ledger. Left out: nowhere. */
  readonly largeCheckpoints?: Pick<CheckpointsParts, 'store' | 'maxBytes' | 'inlineBytes'>;
  readonly settings: WorkerSettings;
}

/** What probes are told of a worker. */
export interface WorkerStatus {
  /** Since its loop turned last. */
  readonly idleMs: number;
  /** It has a lease, and takes tasks. */
  readonly isOpen: boolean;
  /** For how long no message of its queues could have come, while it had a place for one; null: none was asked for yet. */
  readonly deafMs: number | null;
  readonly running: number;
}
