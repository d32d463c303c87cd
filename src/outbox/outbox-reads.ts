import type {
  DeadLetterDetails,
  DeadLetterPage,
  Failing,
  LetterPageRequest,
  PageRequest,
} from '../ledger/dead-letter.ts';

/** The read side of an outbox, for operators. If a task has redacted copies, they are shown instead of its arguments. */
export interface OutboxReads {
  sample(top: number): Promise<OutboxSample>;
  /** Waiting rows, oldest first. The cursor is a row number. */
  list(page: PageRequest): Promise<OutboxPage>;
  /** The newest rows, newest first. */
  recent(limit: number): Promise<readonly OutboxEntry[]>;
  find(id: string): Promise<OutboxEntry | null>;
  /** Rows that could not be published. */
  listDeadLetters(page: LetterPageRequest): Promise<DeadLetterPage>;
  showDeadLetter(id: string): Promise<DeadLetterDetails | null>;
}

/** Figures of one moment. */
export interface OutboxSample {
  /** In any of the four figures that follow, as far as they are rows. */
  readonly pending: number;
  /** Pending and due now; with tasks that are due in a ledger in the same database. */
  readonly due: number;
  /** Waits for its first moment: a later `eta`. The same of a ledger in the same database. */
  readonly scheduled: number;
  /** Failed before, and waits for the next attempt. The same of a ledger in the same database. */
  readonly backoff: number;
  /** Put off without a failure: an outage, or a limit. */
  readonly deferred: number;
  readonly claimed: number;
  readonly sent: number;
  /** Rows in a format this version does not know: they wait for a newer relay. */
  readonly unsupported: number;
  readonly deadLetters: number;
  /**
   * How long the oldest row that was ever due has been waiting since, whatever was tried meanwhile. Tasks that are due in a
   * ledger in the same database are included. Null: there is none.
   */
  readonly oldestPendingMs: number | null;
  /** Rows by queue, in any state; estimated where there are more than 100,000. */
  readonly queues: readonly { readonly queue: string; readonly rows: number }[];
  /** Tasks whose rows and dead letters failed most often, by the sum of their retries. */
  readonly topFailing: readonly Failing[];
}

/** The live backlog: what could go on at this moment. */
export const queueDepthOf = ({ due, claimed }: Pick<OutboxSample, 'due' | 'claimed'>): number =>
  due + claimed;

export interface OutboxEntry {
  readonly row: string;
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: 'pending' | 'claimed' | 'sent';
  /** False: the row is in a format of a newer version, and waits for a newer relay. */
  readonly isSupported: boolean;
  readonly retries: number;
  readonly lastError: string | null;
  readonly createdAt: string;
  readonly availableAt: string;
  readonly orderingKey: string | null;
}

export interface OutboxPage {
  readonly items: readonly OutboxEntry[];
  readonly next: string | null;
}
