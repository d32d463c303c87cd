import type { Broker } from '../broker/broker.ts';
import type { ControlStore } from '../ledger/control-store.ts';
import type { Destinations } from '../ledger/destinations.ts';
import type { RecoveryLedger, RunsAt, WorkerLedger, WorkflowLedger } from '../ledger/ledger.ts';
import type { Redact } from '../task/redact.ts';
import type { KeyDeps } from './run/claim-key.ts';
import type { CheckpointsParts } from './effects/checkpoints.ts';
import type { ExecuteDeps } from './run/execute.ts';
import type { Heartbeat } from './lease/heartbeat.ts';
import type { RunDeps } from './run/run.ts';
import type { RunObserver } from './run-observer.ts';

export interface WorkerSettings {
  /** Queue names with their weights. */
  readonly queues: Readonly<Record<string, number>>;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly idleTimeMs: number;
  readonly shutdownTimeoutMs: number;
  readonly dedupWindowMs: number;
  /** Signed tasks are remembered for as long as copies of them are accepted: they come from a separate broker. */
  readonly remembersSigned?: boolean;
  readonly resultTtlMs: number;
  /** When the broker's copy of a begun task is acknowledged: after its run is settled, or as soon as the ledger has it. */
  readonly ackOn: 'commit' | 'begin';
  /** Sent to callers that wait for a result when their task begins here. Left out: they are not notified. */
  readonly runsAt?: RunsAt;
  /** The operating-system process, by the name its supervisor uses. */
  readonly process: string;
  readonly host: string;
  readonly pid: number;
}

export interface WorkerDeps extends ExecuteDeps, Pick<RunDeps, 'results' | 'gate'> {
  readonly ledger: WorkerLedger & WorkflowLedger & Pick<RecoveryLedger, 'condemn'>;
  readonly broker: Broker;
  readonly heartbeat: Heartbeat;
  readonly keys: KeyDeps;
  /** Left out: people see the unredacted arguments of follow-ups. */
  readonly redact?: Redact | null;
  /** The destinations that messages may name. Left out: any. */
  readonly destinations?: Destinations;
  readonly observer?: RunObserver;
  /** Orders of operators. Left out: its queues cannot be paused, and it cannot be asked to end. */
  readonly control?: ControlStore;
  /** Called when an operator asks this worker to end. */
  readonly onDrainAsked?: () => void;
  /** Aborts: a drain waits for nothing more, and runs are given back at once. Left out: never. */
  readonly forceStop?: AbortSignal;
  /** Where progress goes that is too large for the ledger. Left out: it is refused. */
  readonly largeCheckpoints?: Pick<CheckpointsParts, 'store' | 'maxBytes' | 'inlineBytes'>;
  readonly settings: WorkerSettings;
}

/** The state of a worker, for probes. */
export interface WorkerStatus {
  /** Time since the last iteration of its loop. */
  readonly idleMs: number;
  /** It has a lease, and takes tasks. */
  readonly isOpen: boolean;
  /** For how long no message of its queues could arrive although it had a free slot; null: none was requested yet. */
  readonly deafMs: number | null;
  readonly running: number;
  /** Messages that it holds and has not begun. */
  readonly prefetched: number;
  /** For how long its follow-ups could not be sent; null: they can be, or there were none. */
  readonly unsentMs: number | null;
  /** Why the broker accepts no messages, in its own words; null: it does. */
  readonly blockedBy: string | null;
}
