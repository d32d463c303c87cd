/**
 * Orders of operators for workers: which queues are paused, and which workers are to end. It is kept beside the ledger, so
 * a worker that can begin a task can also read that it must not.
 */
export interface ControlStore {
  /** A living worker reports the queues it takes from, and gets the operators' orders. */
  look(report: ConsumerReport): Promise<ControlOrders>;
  /** No worker takes from the queue any more, also after restarts, until it is resumed. False: it was paused already. */
  pause(queue: string): Promise<boolean>;
  /** False: it was not paused. */
  resume(queue: string): Promise<boolean>;
  paused(): Promise<readonly string[]>;
  /** The living workers. */
  consumers(): Promise<readonly Consumer[]>;
  /** Asks a worker to end as SIGTERM would. False: no such worker lives. */
  drain(worker: string): Promise<boolean>;
}

/** One incarnation of a worker process. */
export interface ConsumerReport {
  readonly worker: string;
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly leaseMs: number;
  /** Includes paused ones; empty while the worker drains. */
  readonly queues: readonly string[];
  readonly running: number;
}

export interface ControlOrders {
  readonly paused: readonly string[];
  readonly isDraining: boolean;
}

/** A worker process and the queues it takes from. */
export interface Consumer {
  readonly worker: string;
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly queues: readonly string[];
  readonly running: number;
  readonly isDraining: boolean;
}
