/**
 * What operators tell workers: which queues are paused, and who is to end. It is kept where the ledger is, so whoever can
 * begin a task can also be told not to.
 */
export interface ControlStore {
  /** A living worker says what it takes from, and is told what operators want. */
  look(report: ConsumerReport): Promise<ControlOrders>;
  /** Nothing is taken from the queue any more, whatever restarts, until it is resumed. False: it was paused already. */
  pause(queue: string): Promise<boolean>;
  /** False: it was not paused. */
  resume(queue: string): Promise<boolean>;
  paused(): Promise<readonly string[]>;
  /** The workers that live. */
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
  /** Paused ones too; none while it drains. */
  readonly queues: readonly string[];
  readonly running: number;
}

export interface ControlOrders {
  readonly paused: readonly string[];
  readonly isDraining: boolean;
}

export interface Consumer {
  readonly worker: string;
  readonly process: string;
  readonly host: string;
  readonly pid: number;
  readonly queues: readonly string[];
  readonly running: number;
  readonly isDraining: boolean;
}
