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
  /** The operating-system process, as its supervisor calls it. */
  readonly process: string;
  readonly host: string;
  readonly pid: number;
}
